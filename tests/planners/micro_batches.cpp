#include "slimpack/planners/micro_batches.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "documents.hpp"
#include "rules.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/sharding/shardable.hpp"
#include "tests/plan/naive_memory.hpp"
#include "tests/plan/naive_run.hpp"

using namespace slimpack;

namespace {

/// Documents of random lengths in `count` micro-batches, some of them empty.
struct Iteration {
  std::vector<Tokens> lengths;
  Packs micro_batches;
};

Iteration random_iteration(std::mt19937& random, std::size_t count) {
  Iteration out;
  for (std::size_t m = 0; m < count; ++m) {
    for (std::size_t n = random() % 6; n > 0; --n) {
      const auto id = static_cast<SampleId>(out.lengths.size());
      out.lengths.push_back(1 + static_cast<Tokens>(random() % (random() % 4 == 0 ? 2000 : 100)));
      out.micro_batches.add({id, 0, out.lengths.back()});
    }
    out.micro_batches.close();
  }
  if (out.lengths.empty()) {
    out.lengths.push_back(50);
    out.micro_batches.add({0, 0, 50});
    out.micro_batches.close();
  }
  return out;
}

Plan plan_with(const oracle::Job4d& on, const Iteration& iteration, MicroBatchOptions options) {
  return MicroBatchPlanner(on.job, on.cost, on.memory, on.attention, options)
      .plan("test", iteration.lengths, iteration.micro_batches);
}

/// A user's model that can't tell attention from the rest; packs cost nothing by themselves.
struct OwnTimes {
  std::size_t count;

  std::size_t stages() const { return count; }
  double slice_seconds(std::size_t, Tokens begin, Tokens end, Pass pass) const {
    const auto work =
        static_cast<double>(end - begin) + 1e-3 * static_cast<double>(end * end - begin * begin);
    return (pass == Pass::forward ? 1e-6 : 2e-6) * work;
  }
  double pack_seconds(std::size_t, Pass) const { return 0.0; }
  double transfer_seconds(std::size_t, Tokens tokens, Pass) const {
    return 1e-9 * static_cast<double>(tokens);
  }
};

static_assert(!SeparableCostModel<OwnTimes>);
static_assert(SeparableCostModel<CalibratedCost>);

}  // namespace

TEST_CASE("any micro-batches make a valid plan, in which replicas run equally many") {
  for (unsigned seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    oracle::Job4d on = oracle::random_job_4d(random);
    on.job.device.memory_bytes = 1e10;
    on = oracle::Job4d(on.job);
    const Iteration iteration = random_iteration(random, 1 + random() % 9);
    const Tokens tokens = std::accumulate(iteration.lengths.begin(), iteration.lengths.end(), Tokens{0});
    if (tokens < on.job.layout.cp) continue;
    const auto dealing = random() % 2 == 0 ? ReplicaDealing::in_turn : ReplicaDealing::balanced;
    const auto order = random() % 2 == 0 ? MicroBatchOrder::as_given : MicroBatchOrder::fastest;
    const Plan plan = plan_with(on, iteration, {ShardingPolicy::mixed, dealing, order});
    CHECK(violations(plan).empty());
    CHECK(oracle::broken_rule(plan) == "");
    CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
    std::vector<std::size_t> count(plan.pipelines.size(), 0);
    for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) ++count[plan.forward.pipelines[k][0]];
    CHECK(std::all_of(count.begin(), count.end(), [&](std::size_t c) { return c == count[0] && c > 0; }));
    const auto naive = slimpack::testing::naive_peak_bytes(plan, on.memory);
    for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
      for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s)
        CHECK(plan.step.peak_bytes[p][s] == Approx(naive[p][s]));
    }
  }
}

TEST_CASE("the chosen order is never slower than the given one") {
  int faster = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    oracle::Job4d on = oracle::random_job_4d(random);
    on.job.device.memory_bytes = 1e10;
    on.job.layout.cp = 1;
    on = oracle::Job4d(on.job);
    const Iteration iteration = random_iteration(random, 8);
    const double given = plan_with(on, iteration, {.order = MicroBatchOrder::as_given}).step.seconds;
    const double fastest = plan_with(on, iteration, {.order = MicroBatchOrder::fastest}).step.seconds;
    CHECK(fastest <= given);
    faster += fastest < given;
  }
  CHECK(faster > 10);
}

TEST_CASE("each policy shards as it says, and the choices are never slower than what they choose from") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    oracle::Job4d on = oracle::random_job_4d(random);
    on.job.layout.cp = 2 + static_cast<std::int32_t>(random() % 3);
    on = oracle::Job4d(on.job);
    const Packs packs = shardable_packs(random_iteration(random, 5).micro_batches, on.job.layout.cp);
    const auto with = [&](ShardingPolicy policy) {
      PackSharing sharing;
      ModelPackAttention attention(on.attention, 128);
      for (std::size_t k = 0; k < packs.size(); ++k)
        attention.shard(packs[k], on.job.layout.cp, policy, sharing);
      return sharing;
    };
    const PackSharing sequence = with(ShardingPolicy::per_sequence),
                      document = with(ShardingPolicy::per_document);
    const PackSharing adaptive = with(ShardingPolicy::adaptive), mixed = with(ShardingPolicy::mixed);
    for (std::size_t k = 0; k < packs.size(); ++k) {
      CHECK(sequence.sharding[k] == Sharding::per_sequence);
      CHECK(document.sharding[k] == Sharding::per_document);
      CHECK(
          adaptive.attention[k] ==
          (document.attention[k].total() < sequence.attention[k].total() ? document : sequence).attention[k]);
      CHECK(mixed.attention[k].total() <= adaptive.attention[k].total());
      CHECK((mixed.sharding[k] == Sharding::mixed) == (mixed.per_document[k].size() > 0));
    }
  }
}

TEST_CASE("a user's cost model that knows no attention keeps its own prices") {
  std::mt19937 random(5);
  Job job = oracle::random_job(random, 2, 1e10);
  job.model.layers = 3;
  job.layout = {.dp = 2, .tp = 1, .cp = 4, .pp = 3};
  const oracle::Job4d on(job);
  MicroBatchPlanner planner(job, OwnTimes{3}, on.memory, on.attention);
  Packs packs;
  packs.add({0, 0, 700});
  packs.add({1, 0, 40});
  packs.close();
  const Plan plan = planner.plan("own", std::vector<Tokens>{700, 40, 9}, packs);
  CHECK(violations(plan).empty());
  CHECK(plan.deferred == std::vector<SampleId>{2});
  REQUIRE(plan.forward.packs.size() == 1);  // the other replica idles, for an empty pack would take no time
  for (std::size_t s = 0; s < 3; ++s) {
    CHECK(plan.forward.seconds[0][s] == Approx(OwnTimes{3}.slice_seconds(s, 0, 700, Pass::forward) +
                                               OwnTimes{3}.slice_seconds(s, 0, 40, Pass::forward)));
  }
  CHECK(planner.document_seconds(700) == Approx(9 * OwnTimes{3}.slice_seconds(0, 0, 700, Pass::forward)));
  CHECK_THROWS_WITH(MicroBatchPlanner(job, OwnTimes{2}, on.memory, on.attention),
                    Catch::Contains("the cost model has 2 stages; expected the 3 of the strategy"));
  job.layout.pp = 0;
  CHECK_THROWS_WITH(MicroBatchPlanner(job, OwnTimes{3}, on.memory, on.attention), Catch::Contains("pp is 0"));
}

TEST_CASE("the bound with the least attention is below every plan of the same documents") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    oracle::Job4d on = oracle::random_job_4d(random);
    on.job.device.memory_bytes = 1e10;
    on = oracle::Job4d(on.job);
    const Iteration iteration = random_iteration(random, 6);
    double bound = -1.0;
    for (const auto policy :
         {ShardingPolicy::per_sequence, ShardingPolicy::per_document, ShardingPolicy::mixed}) {
      for (const auto order : {MicroBatchOrder::as_given, MicroBatchOrder::fastest}) {
        const Plan plan = plan_with(on, iteration, {.sharding = policy, .order = order});
        if (bound < 0.0) bound = plan.step.lower_bound_seconds;
        CHECK(plan.step.lower_bound_seconds == Approx(bound).epsilon(1e-12));
        CHECK(bound <= plan.step.seconds);
        CHECK(bound > 0.0);
      }
    }
    const AttentionSeconds least = on.attention.least_seconds_per_twice_pair();
    for (int i = 0; i < 20; ++i) {
      const Tokens begin = static_cast<Tokens>(random() % 5000),
                   end = begin + 1 + static_cast<Tokens>(random() % 5000);
      const AttentionSeconds chunk = on.attention.chunk_seconds(begin, end);
      CHECK(chunk.forward >= least.forward * twice_causal_pairs(begin, end));
      CHECK(chunk.backward >= least.backward * twice_causal_pairs(begin, end));
    }
  }
}
