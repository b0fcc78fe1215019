#include "slimpack/planners/bytescale.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "github.hpp"
#include "note_of.hpp"
#include "oracle.hpp"
#include "rules.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/dynamic_cp.hpp"
#include "slimpack/planners/megatron.hpp"
#include "tests/plan/naive_memory.hpp"
#include "tests/plan/naive_run.hpp"

using namespace slimpack;

namespace {

struct ByteScaleCase {
  std::vector<Tokens> lengths;
  Job job;

  [[nodiscard]] TransformerMemory memory() const { return TransformerMemory(job, {.reserve_bytes = 0.0}); }
  [[nodiscard]] Plan plan(const ByteScaleOptions& options = {}) const {
    return plan_bytescale(lengths, job, CalibratedCost(job), memory(), assumed_attention(job), options);
  }
};

ByteScaleCase random_bytescale_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  ByteScaleCase c;
  const auto samples = static_cast<std::size_t>(pick(1, 30));
  c.lengths = oracle::random_lengths(random, samples, pick(0, 3), 900);
  c.job = oracle::random_job(random, pick(1, 7), 1e9);
  double fixed = 0.0;
  const TransformerMemory empty = c.memory();
  for (std::size_t s = 0; s < static_cast<std::size_t>(c.job.layout.pp); ++s)
    fixed = std::max(fixed, empty.static_bytes(s));
  c.job.device.memory_bytes = fixed + 3e6 * std::exp(0.9 * pick(0, 6));
  return c;
}

}  // namespace

TEST_CASE(
    "plans of bytescale obey all rules, fit, take what a run of them takes, and are no longer than "
    "megatron's") {
  int planned = 0, refused = 0, shared = 0, odd = 0, mesh = 0, shorter = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    const ByteScaleCase c = random_bytescale_case(seed);
    Plan plan;
    try {
      plan = c.plan();
    } catch (const InvalidInput& error) {
      CHECK_THAT(error.what(), Catch::Contains("fit into") || Catch::Contains("no room"));
      CHECK_THROWS_AS(
          plan_megatron(c.lengths, c.job, CalibratedCost(c.job), c.memory(), assumed_attention(c.job)),
          InvalidInput);
      ++refused;
      continue;
    }
    ++planned;
    CHECK(plan.planner == "bytescale");
    CHECK(violations(plan) == std::vector<std::string>{});
    CHECK(oracle::broken_rule(plan).empty());
    CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
    CHECK(plan.step.lower_bound_seconds > 0.0);
    CHECK(plan.step.lower_bound_seconds <= plan.step.seconds);
    CHECK(plan.forward.packs.slices().size() == c.lengths.size());
    for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
      for (const double bytes : plan.step.peak_bytes[p])
        CHECK(bytes <= c.job.device.memory_bytes * (1.0 + 1e-9));
    }
    if (plan.pipelines.front().cp == 1) {
      const auto naive = slimpack::testing::naive_peak_bytes(plan, c.memory());
      for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
        for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s)
          CHECK(plan.step.peak_bytes[p][s] == Approx(naive[p][s]).epsilon(1e-6));
      }
    }
    for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) {
      const auto members = plan.forward.pipelines[k];
      CHECK(members.back() - members.front() + 1 == members.size());
      shared += members.size() > 1 ? 1 : 0;
      odd += members.size() == 3 || members.size() > 4 ? 1 : 0;
    }
    mesh += slimpack::testing::has_note(plan, "groups of one size were the best") ? 1 : 0;
    if (static_cast<std::size_t>(c.job.layout.dp) > c.lengths.size()) continue;
    try {
      const Plan megatron =
          plan_megatron(c.lengths, c.job, CalibratedCost(c.job), c.memory(), assumed_attention(c.job));
      CHECK(plan.step.seconds <= megatron.step.seconds * (1.0 + 1e-12));
      shorter += plan.step.seconds < megatron.step.seconds * (1.0 - 1e-6) ? 1 : 0;
    } catch (const InvalidInput&) {
      ++shorter;
    }
  }
  CHECK(planned > 80);
  CHECK(refused > 0);
  CHECK(shared > 100);
  CHECK(odd > 3);
  CHECK(mesh > 5);
  CHECK(shorter > 40);
}

TEST_CASE("on real lengths bytescale is faster than a static mesh, on one stage and on several") {
  for (const std::int32_t stages : {1, 4}) {
    const std::vector<Tokens> lengths = oracle::github(128, 65536);
    const Job job = oracle::llama_13b(8, stages, 4);
    const Plan plan = plan_bytescale(lengths, job);
    CHECK(violations(plan).empty());
    CHECK(plan.step.seconds < plan_megatron(lengths, job).step.seconds);
  }
}

TEST_CASE("bytescale refuses what it can't plan, and says why") {
  const Job job = oracle::llama_13b(2, 2, 4);
  const std::vector<Tokens> lengths{4000, 70, 8000};
  CHECK_THROWS_WITH(plan_bytescale({}, job), Catch::Contains("the batch has no samples"));
  CHECK_THROWS_WITH(plan_bytescale(lengths, job, {.context = 5000}),
                    Catch::Contains("sample 2 has 8000 tokens; expected at most the context of 5000"));
  CHECK_THROWS_WITH(plan_bytescale(lengths, job, {.limit = -1}), Catch::Contains("limit is -1"));
  CHECK_THROWS_WITH(plan_bytescale(lengths, job, {.limit = 3000}),
                    Catch::Contains("sample 2 has 8000 tokens; expected at most the limit of 3000"));
  CHECK_THROWS_WITH(plan_bytescale(std::vector<Tokens>{50'000'000}, job),
                    Catch::Contains("no packs that were tried fit into 85.5 GB"));
}
