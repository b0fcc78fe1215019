#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "oracle.hpp"
#include "short_memory_case.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/plan/memory.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/effort.hpp"
#include "tests/plan/naive_memory.hpp"
#include "tests/plan/naive_run.hpp"

using namespace slimpack;
using oracle::check_plan;
using oracle::short_memory_case;
using oracle::ShortMemoryCase;

namespace {

std::pair<std::size_t, std::size_t> pack_counts_of(const PipelinePlan& pipeline) {
  std::size_t forward = 0;
  for (const Task task : pipeline.order.front()) forward += task.pass == Pass::forward ? 1u : 0u;
  return {forward, pipeline.order.front().size() - forward};
}

}  // namespace

TEST_CASE("slimpack's plans keep all rules, take the time and the memory that they state") {
  unsigned planned = 0, merged = 0, recomputed = 0, empty = 0;
  constexpr unsigned seeds = slimpack::testing::seeds(400, 120);
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    const ShortMemoryCase c = short_memory_case(seed);
    INFO("seed " << seed);
    const TransformerMemory memory(c.job, c.memory);
    Plan plan;
    try {
      plan = plan_slimpack(c.lengths, c.job, CalibratedCost(c.job), memory, c.options);
    } catch (const InvalidInput& error) {
      // Only for want of memory.
      CHECK(std::string(error.what()).find("memory") != std::string::npos);
      continue;
    }
    ++planned;
    check_plan(plan, memory);
    CHECK(to_json(plan) ==
          to_json(plan_slimpack(c.lengths, c.job, CalibratedCost(c.job), memory, c.options)));
    for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) {
      merged += plan.forward.pipelines[k].size() > 1 ? 1U : 0U;
      empty += plan.forward.packs[k].empty() ? 1U : 0U;
    }
    const auto& layers = plan.backward.recompute_layers.values();
    recomputed += std::any_of(layers.begin(), layers.end(), [](std::int32_t n) { return n > 0; }) ? 1U : 0U;
    if (c.options.equal_packs) {
      for (const PipelinePlan& p : plan.pipelines)
        CHECK(pack_counts_of(p) == pack_counts_of(plan.pipelines[0]));
    }
    if (c.options.tile > 1) {
      for (const PassPlan* pass : {&plan.forward, &plan.backward}) {
        for (const Slice& slice : pass->packs.slices()) {
          CHECK((slice.begin % c.options.tile == 0 || slice.begin == 0));
          CHECK((slice.end % c.options.tile == 0 || slice.end == c.lengths[slice.sample]));
        }
      }
    }
  }
  // The cases reach what they are meant to reach.
  CHECK(planned > seeds * 3 / 4);
  CHECK(merged > seeds / 4);
  CHECK(recomputed > seeds / 40);
  CHECK(empty > seeds / 40);
}

TEST_CASE("megatron's plans keep all rules, take the time and the memory that they state") {
  int planned = 0, context_parallel = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    const ShortMemoryCase c = short_memory_case(seed);
    INFO("seed " << seed);
    Plan plan;
    try {
      plan = plan_megatron(c.lengths, c.job, CalibratedCost(c.job), TransformerMemory(c.job, c.memory));
    } catch (const InvalidInput& error) {
      CHECK(std::string(error.what()).find("do not fit") != std::string::npos);
      continue;
    }
    ++planned;
    Job used = c.job;
    used.layout.cp = plan.pipelines.front().cp;
    used.layout.dp = static_cast<std::int32_t>(plan.pipelines.size());
    context_parallel += used.layout.cp > 1 ? 1 : 0;
    CHECK(violations(plan).empty());
    CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
    CHECK(plan.step.lower_bound_seconds <= plan.step.seconds);
    const TransformerMemory memory(used, c.memory);
    const auto naive = slimpack::testing::naive_peak_bytes(plan, memory);
    for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
      for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
        // The planner rounds a rank's share of a pack up to a token.
        const double exact = naive[p][s];
        const double token =
            TransformerMemory(c.job, c.memory).workspace_bytes(s, Pass::backward, 1, c.job.model.layers);
        CHECK(plan.step.peak_bytes[p][s] >= exact * (1.0 - 1e-9));
        CHECK(plan.step.peak_bytes[p][s] <= exact + token);
        CHECK(plan.step.peak_bytes[p][s] <= memory.capacity_bytes() * (1.0 + 1e-9));
      }
    }
  }
  CHECK(planned > 120);
  CHECK(context_parallel > 20);
}

TEST_CASE("what members of a pack hold depends on how they exchange keys") {
  struct ByExchange : TransformerMemory {
    using TransformerMemory::TransformerMemory;
    [[nodiscard]] double exchange_bytes(std::size_t, Pass, Tokens tokens, std::size_t members,
                                        KeyExchange exchange) const {
      return static_cast<double>(tokens) / static_cast<double>(members) *
             (exchange == KeyExchange::all_to_all ? 4e4 : 1e4);
    }
  };
  std::map<KeyExchange, unsigned> seen;
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(120, 20); ++seed) {
    INFO("seed " << seed);
    const ShortMemoryCase c = short_memory_case(seed);
    const ByExchange memory(c.job, c.memory);
    const CalibratedCost cost(c.job, {.exchanges = {KeyExchange::ring, KeyExchange::all_to_all}});
    Plan plan;
    try {
      plan = plan_slimpack(c.lengths, c.job, cost, memory, c.options);
    } catch (const InvalidInput&) {
      continue;
    }
    check_plan(plan, memory);
    for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) ++seen[plan.forward.exchange_of(k)];
  }
  CHECK(seen[KeyExchange::ring] > 0);
  CHECK(seen[KeyExchange::all_to_all] > 0);
}

TEST_CASE("pipelines without samples of their own share others', or are idle") {
  unsigned planned = 0, idle = 0, shared = 0;
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(150, 20); ++seed) {
    INFO("seed " << seed);
    ShortMemoryCase c = short_memory_case(seed);
    c.lengths.resize(1 + seed % 3);
    c.job.layout.dp = 4 + static_cast<std::int32_t>(seed % 4);
    const TransformerMemory memory(c.job, c.memory);
    const CalibratedCost cost(c.job);
    const MegatronOptions same{
        .context = std::max(c.options.context, *std::max_element(c.lengths.begin(), c.lengths.end())),
        .choose_cp = false};
    Plan plan, alone;
    try {
      alone = plan_megatron(c.lengths, c.job, cost, memory, same);
      plan = plan_slimpack(c.lengths, c.job, cost, memory, {.tile = c.options.tile, .context = same.context});
    } catch (const InvalidInput& error) {
      CHECK(std::string(error.what()).find("memory") != std::string::npos);
      continue;
    }
    ++planned;
    for (const Plan* each : {&plan, &alone}) {
      check_plan(*each, memory);
      REQUIRE(std::cmp_equal(each->pipelines.size(), c.job.layout.dp));
    }
    for (const PipelinePlan& p : alone.pipelines) idle += p.order.front().empty() ? 1U : 0U;
    shared += plan.forward.pipelines[0].size() > 1 ? 1U : 0U;
    CHECK(plan.step.seconds <= alone.step.seconds * (1.0 + 1e-12));
  }
  CHECK(planned > slimpack::testing::seeds(75, 10));
  CHECK(idle > planned);
  CHECK(shared > planned / 4);
}

TEST_CASE("a plan on forward boundaries alone balances the backward pass worse") {
  std::mt19937 random(7);
  std::vector<Tokens> lengths = oracle::random_lengths(random, 300, 0, 4000);
  for (int i = 0; i < 6; ++i) lengths.push_back(60000);
  const Job job{.model = {"small", 8, 1024, 8, 8, 128, 2816, 4000},
                .device = {.name = "d",
                           .peak_flops = 1e14,
                           .gemm_efficiency = 0.6,
                           .gemm_backward_efficiency = 0.6,
                           .attention_forward = 0.5,
                           .attention_backward = 0.3,
                           .memory_bytes = 1.7e10,
                           .memory_bandwidth = 2e12,
                           .pack_overhead = 1e-5,
                           .intra_node = {3e11, 1e-6},
                           .inter_node = {4e10, 1e-6},
                           .host = {5e10, 1e-6}},
                .layout = {.dp = 2, .tp = 1, .cp = 1, .pp = 4}};
  const Plan both = plan_slimpack(lengths, job, {.packs = 32});
  const Plan forward_only = plan_slimpack(lengths, job, {.asymmetric = false, .packs = 32});
  const PlanMetrics own = plan_metrics(both), mirrored = plan_metrics(forward_only);
  // Slices pay for their prefix, so packs are cut to MicroPackOptions::accuracy; tiles of the kernel come on top.
  CHECK(own.max_over_mean_forward < 1.03);
  CHECK(own.max_over_mean_backward < 1.04);
  CHECK(mirrored.max_over_mean_backward > 1.04);
  CHECK(both.step.seconds < forward_only.step.seconds);
  CHECK(own.replica_imbalance < 1.005);
}

TEST_CASE("impossible jobs are refused with what would be accepted") {
  const Job job{.model = {"tiny", 2, 64, 4, 2, 16, 160, 500},
                .device = {.name = "d",
                           .peak_flops = 1e12,
                           .gemm_efficiency = 0.5,
                           .gemm_backward_efficiency = 0.5,
                           .attention_forward = 0.4,
                           .attention_backward = 0.3,
                           .memory_bytes = 2e7,
                           .memory_bandwidth = 1e11,
                           .pack_overhead = 1e-6,
                           .intra_node = {1e10, 0},
                           .inter_node = {1e9, 0},
                           .host = {1e9, 0}},
                .layout = {.dp = 2, .tp = 1, .cp = 1, .pp = 2}};
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "";
  };
  const auto plan = [&](std::vector<Tokens> lengths, Job j, double reserve = 0.0) {
    const TransformerMemory memory(j, {.reserve_bytes = reserve});
    return plan_slimpack(lengths, j, CalibratedCost(j), memory);
  };
  CHECK_THAT(message([&] { (void)plan({5, 0, 7}, job); }), Catch::Contains("sample 1 has 0 tokens"));
  Job many = job;
  many.layout.dp = 70'000;
  CHECK_THAT(message([&] { (void)plan({5}, many); }),
             Catch::Contains("dp is 70000; expected at most 65536 pipelines for 1 samples"));
  CHECK_THAT(message([&] { (void)plan({}, job); }), Catch::Contains("no samples"));
  Job deep = job;
  deep.layout.pp = 3;
  CHECK_THAT(message([&] {
               (void)plan({5, 6}, deep);
             }),
             Catch::Contains("pp is 3") && Catch::Contains("2 layers"));
  CHECK_THAT(message([&] {
               (void)plan({5, 1 << 20}, job);
             }),
             Catch::Contains("sample 1 has 1048576") && Catch::Contains("2 merged pipelines"));
  const auto search = [&](const SlimPackSearch& constants) {
    const TransformerMemory memory(job, {.reserve_bytes = 0.0});
    const std::vector<Tokens> lengths{5, 6};
    (void)plan_slimpack(lengths, job, CalibratedCost(job), memory, {.search = constants});
  };
  CHECK_THAT(message([&] { search({.deciding_tile = 0}); }), Catch::Contains("deciding_tile is 0"));
  CHECK_THAT(message([&] { search({.alternatives = 0}); }), Catch::Contains("alternatives is 0"));
  CHECK_THAT(message([&] { search({.close = 0.9}); }), Catch::Contains("close is 0.9"));
  CHECK_THAT(message([&] { search({.coarse_step = 1.0}); }),
             Catch::Contains("coarse_step is 1; expected more"));
  CHECK_THAT(message([&] { search({.slices_per_pack = 0.0}); }), Catch::Contains("slices_per_pack is 0"));
  CHECK_THAT(message([&] { search({.leeway = 0.5}); }), Catch::Contains("leeway is 0.5"));
  CHECK_THAT(message([&] { search({.less_memory = 1.0}); }), Catch::Contains("less_memory is 1"));
  CHECK_THAT(message([&] { search({.denser = std::nan("")}); }), Catch::Contains("denser is nan"));
  CHECK_THAT(message([&] { search({.more_packs = 1}); }), Catch::Contains("more_packs is 1"));
}

TEST_CASE("planners work with a user's own cost model") {
  struct Own {
    std::size_t stages() const { return 3; }
    double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
      return static_cast<double>(end - begin) * (1.0 + static_cast<double>(stage)) *
                 (pass == Pass::forward ? 1e-6 : 2e-6) +
             1e-9 * twice_causal_pairs(begin, end);
    }
    double pack_seconds(std::size_t, Pass) const { return 1e-5; }
    double transfer_seconds(std::size_t, Tokens, Pass) const { return 1e-6; }
  };
  std::mt19937 random(3);
  Job job = oracle::random_job(random, 2, 1e10);
  job.model.layers = 3;
  job.layout.pp = 3;
  const std::vector<Tokens> lengths = oracle::random_lengths(random, 60, 0, 5000);
  const TransformerMemory memory(job, {.reserve_bytes = 0.0});
  check_plan(plan_slimpack(lengths, job, Own{}, memory), memory);
  CHECK(violations(plan_megatron(lengths, job, Own{}, memory)).empty());
}

TEST_CASE("a stage whose weights alone exceed memory is named") {
  const Job job{.model = transformer_preset("llama-150b"), .device = device_preset("h100"), .layout = {}};
  const std::vector<Tokens> lengths{100, 200};
  CHECK_THROWS_WITH(plan_slimpack(lengths, job), Catch::Contains("stage 0 needs"));
  CHECK_THROWS_WITH(plan_megatron(lengths, job, {.context = 200}), Catch::Contains("stage 0 needs"));
}

TEST_CASE("a million samples are planned", "[slow]") {
  std::mt19937 random(1);
  const std::vector<Tokens> lengths = oracle::random_lengths(random, 1000000, 0, 100000);
  Job job = oracle::random_job(random, 64, 1e12);
  job.model.layers = 4;
  job.layout.pp = 4;
  const Plan plan = plan_slimpack(lengths, job, {.packs = 64});
  CHECK(violations(plan).empty());
  CHECK(plan_metrics(plan).busiest_stage_imbalance < 1.005);
}
