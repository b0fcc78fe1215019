#include "slimpack/planners/dynapipe.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "github.hpp"
#include "oracle.hpp"
#include "rules.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/megatron.hpp"
#include "tests/plan/naive_run.hpp"

using namespace slimpack;

namespace {

struct DynaPipeCase {
  std::vector<Tokens> lengths;
  Job job;

  [[nodiscard]] TransformerMemory memory(const Layout& layout) const {
    Job own = job;
    own.layout = layout;
    return TransformerMemory(own, {.reserve_bytes = 0.0});
  }
  [[nodiscard]] Plan plan(const DynaPipeOptions& options = {}) const {
    return plan_dynapipe(lengths, job, CalibratedCost(job), memory(job.layout), assumed_attention(job),
                         options);
  }
};

DynaPipeCase random_dynapipe_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  DynaPipeCase c;
  const auto samples = static_cast<std::size_t>(pick(1, 40));
  c.lengths = oracle::random_lengths(random, samples, pick(0, 3), 900);
  c.job = oracle::random_job(random, 1, 1e9);
  c.job.layout.dp = pick(1, 6);
  c.job.layout.cp = pick(0, 2) == 0 ? 2 : 1;
  const TransformerMemory empty = c.memory(c.job.layout);
  double fixed = 0.0;
  for (std::size_t s = 0; s < static_cast<std::size_t>(c.job.layout.pp); ++s)
    fixed = std::max(fixed, empty.static_bytes(s));
  c.job.device.memory_bytes = fixed + 3e6 * std::exp(0.9 * pick(0, 6));
  return c;
}

}  // namespace

TEST_CASE("plans of dynapipe obey all rules, fit, and take what a run of them takes") {
  int planned = 0, refused = 0, recomputed = 0, several = 0, shared = 0;
  for (unsigned seed = 1; seed <= 250; ++seed) {
    INFO("seed " << seed);
    const DynaPipeCase c = random_dynapipe_case(seed);
    Plan plan;
    try {
      plan = c.plan();
    } catch (const InvalidInput& error) {
      CHECK_THAT(error.what(), Catch::Contains("fit into") || Catch::Contains("no room"));
      ++refused;
      continue;
    }
    ++planned;
    CHECK(plan.planner == "dynapipe");
    CHECK(violations(plan) == std::vector<std::string>{});
    CHECK(oracle::broken_rule(plan).empty());
    CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
    CHECK(plan.step.lower_bound_seconds > 0.0);
    CHECK(plan.step.lower_bound_seconds <= plan.step.seconds);
    CHECK(plan.forward.packs.slices().size() == c.lengths.size());
    Layout layout = c.job.layout;
    const std::int32_t group = plan.pipelines.front().cp / layout.cp;
    layout.dp /= group;
    layout.cp *= group;
    CHECK(plan.pipelines.size() == static_cast<std::size_t>(layout.dp));
    const TransformerMemory memory = c.memory(layout);
    for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
      for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s)
        CHECK(plan.step.peak_bytes[p][s] <= memory.capacity_bytes() * (1.0 + 1e-9));
    }
    for (const std::int32_t layers : plan.backward.recompute_layers.values())
      recomputed += layers > 0 ? 1 : 0;
    several += plan.forward.packs.size() > plan.pipelines.size() ? 1 : 0;
    shared += group > 1 ? 1 : 0;
  }
  CHECK(planned > 120);
  CHECK(refused > 0);
  CHECK(recomputed > 20);
  CHECK(several > 60);
  CHECK(shared > 10);
}

TEST_CASE("micro-batches hold samples of neighbouring lengths") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    DynaPipeCase c = random_dynapipe_case(seed);
    c.job.device.memory_bytes = 1e11;
    const Plan plan = c.plan();
    std::vector<std::pair<Tokens, Tokens>> ranges;  // of lengths
    for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) {
      const auto pack = plan.forward.packs[k];
      const auto [least, most] = std::minmax_element(
          pack.begin(), pack.end(), [](const Slice& a, const Slice& b) { return a.size() < b.size(); });
      ranges.emplace_back(least->size(), most->size());
    }
    for (const auto& [least, most] : ranges) {
      for (const auto& [other_least, other_most] : ranges) {
        const bool same = least == other_least && most == other_most;
        CHECK((same || least >= other_most || most <= other_least));
      }
    }
  }
}

TEST_CASE(
    "more clusters, more finalists and a choice of context parallelism never make a step of dynapipe "
    "longer") {
  int shorter = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    DynaPipeCase c = random_dynapipe_case(seed);
    c.job.device.memory_bytes = 1e11;
    double before = std::numeric_limits<double>::infinity();
    for (const DynaPipeOptions& options :
         {DynaPipeOptions{.choose_cp = false, .clusters = 1, .finalists = 1},
          DynaPipeOptions{.choose_cp = true, .clusters = 1, .finalists = 1},
          DynaPipeOptions{.choose_cp = true, .clusters = 1, .finalists = 3},
          DynaPipeOptions{.choose_cp = true, .clusters = 4, .finalists = 3}}) {
      const double seconds = c.plan(options).step.seconds;
      CHECK(seconds <= before * (1.0 + 1e-12));
      shorter += seconds < before * (1.0 - 1e-9) ? 1 : 0;
      before = seconds;
    }
  }
  CHECK(shorter > 80);
}

TEST_CASE("on real lengths and several stages dynapipe is faster than megatron") {
  for (const Tokens context : {16384, 65536}) {
    const std::vector<Tokens> lengths = oracle::github(128, context);
    const Job job = oracle::llama_13b(4, 4, 4);
    CHECK(plan_dynapipe(lengths, job).step.seconds < plan_megatron(lengths, job).step.seconds);
  }
}

TEST_CASE("dynapipe refuses what it can't plan, and says why") {
  DynaPipeCase c = random_dynapipe_case(1);
  CHECK_THROWS_WITH(plan_dynapipe({}, oracle::llama_13b(2, 2, 4)),
                    Catch::Contains("the batch has no samples"));
  CHECK_THROWS_WITH(c.plan({.clusters = 7}), Catch::Contains("clusters is 7; expected 1 to 6"));
  CHECK_THROWS_WITH(c.plan({.finalists = 0}), Catch::Contains("finalists is 0"));
  const Job job = oracle::llama_13b(2, 2, 4);
  CHECK_THROWS_WITH(plan_dynapipe(std::vector<Tokens>{50'000'000}, job),
                    Catch::Contains("no micro-batches that were tried fit into 85.5 GB per device"));
}
