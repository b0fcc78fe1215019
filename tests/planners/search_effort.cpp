#include <catch2/catch.hpp>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "oracle.hpp"
#include "short_memory_case.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/dynamic_cp.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/effort.hpp"

using namespace slimpack;

namespace {

constexpr double refused = std::numeric_limits<double>::infinity();
constexpr double rounding = 1.0 + 1e-9;

/// Seconds of the step, infinite if the planner refuses.
template <class Make>
double step_seconds(const Make& make) {
  try {
    const Plan plan = make();
    CHECK(violations(plan).empty());
    return plan.step.seconds;
  } catch (const InvalidInput&) {
    return refused;
  }
}

}  // namespace

TEST_CASE("a quick search's step is between a thorough one's and megatron's, and it refuses nothing more") {
  int longer = 0;
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(300, 30); ++seed) {
    INFO("seed " << seed);
    const oracle::ShortMemoryCase c = oracle::short_memory_case(seed);
    const TransformerMemory memory(c.job, c.memory);
    const CalibratedCost cost(c.job);
    const auto seconds = [&](bool is_thorough) {
      SlimPackOptions options;
      options.search.thorough = is_thorough;
      return step_seconds([&] { return plan_slimpack(c.lengths, c.job, cost, memory, options); });
    };
    const double quick = seconds(false), thorough = seconds(true);
    CHECK(thorough <= quick * rounding);
    CHECK((thorough < refused) == (quick < refused));
    CHECK(quick <= rounding * step_seconds([&] { return plan_megatron(c.lengths, c.job, cost, memory); }));
    longer += quick > thorough * 1.001 ? 1 : 0;
  }
  CHECK(longer > 0);  // else there would be nothing to be thorough for
}

TEST_CASE("no step is longer than dynamic-cp's on the same pipelines") {
  int shorter_without_rows = 0;
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(150, 15); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto dp = static_cast<std::int32_t>(1 + random() % 8);
    const std::size_t samples = 1 + random() % 40;
    const int kind = seed % 2 == 0 ? 1 : static_cast<int>(random() % 4);
    const std::vector<Tokens> lengths = oracle::random_lengths(random, samples, kind, 900);
    const Job job = oracle::random_job(random, dp, 1e11);
    SlimPackOptions without;
    without.search.rank_rows = false;
    const double rows = step_seconds([&] { return plan_dynamic_cp(lengths, job); });
    CHECK(step_seconds([&] { return plan_slimpack(lengths, job); }) <= rows * rounding);
    shorter_without_rows +=
        rows * rounding < step_seconds([&] { return plan_slimpack(lengths, job, without); }) ? 1 : 0;
  }
  CHECK(shorter_without_rows > 0);
}
