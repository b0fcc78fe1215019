// The planner of unequal_chunks.hpp makes valid plans. That they train as they should is tested in tests/kernels.

#include "unequal_chunks.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "oracle.hpp"
#include "rules.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/validate.hpp"
#include "tests/exec/cluster.hpp"
#include "tests/plan/naive_memory.hpp"
#include "tests/plan/naive_run.hpp"

using namespace slimpack;

namespace {

/// Pipelines of two and of four stages, two of each, and one of a single stage.
Strategy mixed_strategy(std::int32_t layers) {
  return chunks::pipelines_of(std::array{2, 4, 2, 4, 1}, layers);
}

}  // namespace

TEST_CASE("a user's planner of chunks makes valid plans for pipelines of several kinds", "[threads]") {
  int recomputed = 0, kept = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Job job = oracle::random_job(random, 1, 1e10);
    Transformer model = job.model;
    model.layers = 8;
    const Strategy strategy = mixed_strategy(model.layers);
    const std::vector<Tokens> lengths = oracle::random_lengths(random, 40, static_cast<int>(seed % 4), 900);
    const MemoryOptions options{.reserve_bytes = 0.0};
    const Plan plan = chunks::plan(lengths, model, job.device, strategy, options, 128);
    const auto found = violations(plan);
    INFO((found.empty() ? "" : found.front()));
    REQUIRE(found.empty());
    CHECK(oracle::broken_rule(plan).empty());
    CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
    CHECK(time_plan(plan).seconds == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
    CHECK(plan.step.sync_seconds > 0.0);
    CHECK(plan.forward.packs.size() == plan.backward.packs.size());
    for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
      const TransformerMemory memory(model, job.device, strategy.pipelines[p], 5, options);
      for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s)
        CHECK(plan.step.peak_bytes[p][s] ==
              Approx(slimpack::testing::NaiveMemory(plan, memory).peak(p, s)).epsilon(1e-6));
    }
    for (std::size_t k = 0; k < plan.backward.packs.size(); ++k) {
      const auto pack = plan.backward.packs[k];
      const bool part = pack.size() == 1 && pack[0].size() < lengths[pack[0].sample];
      const auto recompute_layers = plan.backward.recompute_layers[k];
      CHECK(std::accumulate(recompute_layers.begin(), recompute_layers.end(), 0) ==
            (part ? model.layers : 0));
      ++(part ? recomputed : kept);
    }
    for (const testing::Channel channel : {testing::Channel::buffered, testing::Channel::rendezvous}) {
      const std::vector<std::string> errors = testing::run_ranks(plan, channel);
      CHECK(errors == std::vector<std::string>(errors.size()));
    }
  }
  CHECK(recomputed > 50);
  CHECK(kept > 50);
}

TEST_CASE("a user's planner says that chunks do not fit") {
  std::mt19937 random(1);
  const Job job = oracle::random_job(random, 1, 1e10);
  Transformer model = job.model;
  model.layers = 8;
  Device small = job.device;
  const Strategy strategy = mixed_strategy(model.layers);
  const MemoryOptions options{.reserve_bytes = 0.0};
  small.memory_bytes =
      TransformerMemory(model, small, strategy.pipelines[4], 5, options).static_bytes(0) + 1e5;
  const std::vector<Tokens> lengths(40, 700);
  CHECK_THROWS_WITH(chunks::plan(lengths, model, small, strategy, options, 128),
                    Catch::Contains("do not fit into memory"));
}
