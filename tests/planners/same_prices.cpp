#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "documents.hpp"
#include "note_of.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/shards.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/bytescale.hpp"
#include "slimpack/planners/deepspeed.hpp"
#include "slimpack/planners/dynamic_cp.hpp"
#include "slimpack/planners/dynapipe.hpp"
#include "slimpack/planners/fixed_4d.hpp"
#include "slimpack/planners/flexsp.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/plain_4d.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "slimpack/planners/wlb.hpp"

using namespace slimpack;

// Plans of all planners say how their packs are run, and take what that costs, counted chunk by chunk.

namespace {

double of(const AttentionSeconds& seconds, Pass pass) {
  return pass == Pass::forward ? seconds.forward : seconds.backward;
}

/// One layer's attention on the slowest rank of a pack.
double slowest_rank(const Plan& plan, Task task, const AttentionKernel& kernel) {
  const PassPlan& pass = plan.of(task.pass);
  const std::span<const Slice> pack = pass.packs[task.pack];
  if (pack.empty()) return 0.0;
  const std::int32_t ranks = context_ranks(plan, task);
  const double alone = of(attention_seconds(kernel, pack), task.pass);
  if (ranks == 1) return alone;
  const double launch = of(kernel.launch_seconds(), task.pass);
  if (pass.exchange_of(task.pack) == KeyExchange::all_to_all) return launch + (alone - launch) / ranks;
  double most = 0.0;
  const ContextShards shards = pack_shards(plan, task);
  for (std::size_t r = 0; r < shards.ranks.size(); ++r)
    most = std::max(most, of(attention_seconds(kernel, shards.ranks[r]), task.pass));
  return most;
}

/// Checks the seconds of packs in which nothing is recomputed.
/// @param cost of the plan's pipelines.
void check_prices(const Plan& plan, const CalibratedCost& cost, const AttentionKernel& kernel) {
  CHECK(violations(plan).empty());
  CHECK(plan.step.lower_bound_seconds > 0.0);
  CHECK(plan.step.lower_bound_seconds <= plan.step.seconds);
  const CalibratedCost best = cost.with_attention(kernel.least_seconds_per_twice_pair());
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const PassPlan& packs = plan.of(pass);
    for (PackId k = 0; k < packs.packs.size(); ++k) {
      const Task task{pass, k};
      const bool shared = context_ranks(plan, task) > 1;
      CHECK((packs.sharding[k] != Sharding::none) == shared);
      CHECK((packs.exchange_of(k) != KeyExchange::none) == shared);
      const CalibratedCost group =
          best.with_context_parallel(static_cast<std::int32_t>(packs.pipelines[k].size()));
      const CalibratedCost own = shared ? group.with_exchange(packs.exchange_of(k)) : group;
      const double layer = slowest_rank(plan, task, kernel);
      for (std::size_t s = 0; s < cost.stages(); ++s) {
        if (pass == Pass::backward && packs.recompute_layers[k][s] > 0) continue;
        double expected = own.pack_seconds(s, pass) + own.attention_seconds(s, pass, layer);
        for (const Slice& slice : packs.packs[k])
          expected += own.other_seconds(s, slice.begin, slice.end, pass);
        CHECK(packs.seconds[k][s] == Approx(expected).epsilon(1e-9));
      }
    }
  }
}

}  // namespace

TEST_CASE("plans of all planners take what their packs take as they are run") {
  int shared = 0, merged = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    Job job = oracle::random_job(random, static_cast<std::int32_t>(1 + random() % 4), 1e11);
    job.layout.cp = random() % 2 == 0 ? 1 : 2;
    job.device.pack_overhead = 1e-5;
    const std::vector<Tokens> lengths =
        oracle::random_lengths(random, 40, static_cast<int>(random() % 4), 20000);
    const MemoryOptions none{.reserve_bytes = 0.0};
    const CalibratedCost cost(job);
    const AttentionKernel kernel = assumed_attention(job);
    const TransformerMemory memory(job, none);
    const Plan slim = plan_slimpack(lengths, job, cost, memory, kernel);
    const Plan megatron = plan_megatron(lengths, job, cost, memory, kernel);
    CHECK(slim.step.seconds <= megatron.step.seconds * (1.0 + 1e-12));
    check_prices(slim, cost, kernel);
    const std::int32_t share = megatron.pipelines.front().cp / job.layout.cp;  // taken from data parallelism
    check_prices(megatron, cost.with_context_parallel(share), kernel);
    check_prices(plan_dynamic_cp(lengths, job, cost, memory, kernel), cost, kernel);
    const Plan bytescale = plan_bytescale(lengths, job, cost, memory, kernel);
    check_prices(bytescale, cost.with_context_parallel(bytescale.pipelines.front().cp / job.layout.cp),
                 kernel);
    const Plan dynapipe = plan_dynapipe(lengths, job, cost, memory, kernel);
    check_prices(dynapipe, cost.with_context_parallel(dynapipe.pipelines.front().cp / job.layout.cp), kernel);
    check_prices(plan_plain_4d(lengths, job, cost, memory, kernel), cost, kernel);
    const std::vector<std::size_t> batches{0, lengths.size()};
    check_prices(plan_fixed_4d(lengths, batches, job, cost, memory, kernel).plans.front(), cost, kernel);
    WlbPlanner wlb(job, cost, memory, kernel, {.context = 20000});
    std::vector<Document> documents;
    for (std::size_t i = 0; i < lengths.size(); ++i) documents.push_back({i, lengths[i]});
    check_prices(wlb.push(documents), cost, kernel);
    Job sequences = job;
    sequences.layout.tp = sequences.layout.pp = 1;
    const UlyssesOptions options = ulysses_options({}, none);
    const CalibratedCost ulysses(sequences, options.cost);
    const TransformerMemory sharded(sequences, options.memory);
    const AttentionKernel own = assumed_attention(sequences);
    check_prices(plan_deepspeed(lengths, sequences, ulysses, sharded, own), ulysses, own);
    check_prices(plan_flexsp(lengths, sequences, ulysses, sharded, own), ulysses, own);
    for (const Plan* const plan : {&slim, &megatron}) shared += plan->forward.exchange.empty() ? 0 : 1;
    merged += slim.forward.pipelines.values().size() > slim.forward.packs.size() ? 1 : 0;
  }
  CHECK(shared > 20);
  CHECK(merged > 2);
}

TEST_CASE("a planner that is given a job plans by the same attention table as all others") {
  const Job job{.model = transformer_preset("llama-7b"),
                .device = device_preset("h100"),
                .layout = {.dp = 2, .tp = 8, .cp = 2, .pp = 4}};
  const std::vector<Tokens> lengths{60000, 3000, 20000, 900, 12000, 31000, 7000, 400};
  const CalibratedCost cost(job);
  const AttentionKernel kernel = assumed_attention(job);
  CHECK(plan_slimpack(lengths, job).step.seconds ==
        plan_slimpack(lengths, job, cost, TransformerMemory(job), kernel).step.seconds);
  CHECK(plan_megatron(lengths, job).step.seconds ==
        plan_megatron(lengths, job, cost, TransformerMemory(job), kernel).step.seconds);
  CHECK(plan_dynamic_cp(lengths, job).step.seconds ==
        plan_dynamic_cp(lengths, job, cost, TransformerMemory(job), kernel).step.seconds);
  CHECK(plan_dynapipe(lengths, job).step.seconds ==
        plan_dynapipe(lengths, job, cost, TransformerMemory(job), kernel).step.seconds);
  CHECK(plan_slimpack(lengths, job).step.seconds >
        plan_slimpack(lengths, job, cost, TransformerMemory(job)).step.seconds);
}

TEST_CASE("a note says where ranks are assumed to share attention equally") {
  const Job job{.model = transformer_preset("llama-7b"),
                .device = device_preset("h100"),
                .layout = {.dp = 2, .tp = 8, .cp = 2, .pp = 4}};
  const std::vector<Tokens> lengths{60000, 3000, 20000};
  const auto noted = [](const Plan& plan) {
    return slimpack::testing::has_note(plan, "share attention equally");
  };
  const CalibratedCost cost(job);
  const TransformerMemory memory(job);
  CHECK_FALSE(noted(plan_slimpack(lengths, job)));
  CHECK_FALSE(noted(plan_megatron(lengths, job)));
  CHECK(noted(plan_slimpack(lengths, job, cost, memory)));
  CHECK(noted(plan_megatron(lengths, job, cost, memory)));
}
