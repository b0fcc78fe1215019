#include "slimpack/plan/memory.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/plan/equal_plan.hpp"
#include "tests/plan/naive_memory.hpp"
#include "tests/plan/naive_run.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;

namespace {

/// Numbers that binary fractions hold exactly, so that curves can be compared for equality.
struct ToyMemory {
  double scale = 1.0;

  [[nodiscard]] double capacity_bytes() const { return 1e9; }
  [[nodiscard]] double static_bytes(std::size_t stage) const {
    return scale * (1000.0 + 10.0 * double(stage));
  }
  [[nodiscard]] double activation_bytes(std::size_t stage, int recompute_layers) const {
    return scale * (64.0 + double(stage) - 16.0 * recompute_layers);
  }
  [[nodiscard]] double kv_gradient_bytes(std::size_t stage) const { return scale * (4.0 + double(stage)); }
  [[nodiscard]] double workspace_bytes(std::size_t stage, Pass pass, Tokens tokens,
                                       int recompute_layers) const {
    return scale * double(tokens) * (pass == Pass::forward ? 2.0 : 3.0 + 8.0 * recompute_layers) +
           double(stage);
  }
};

}  // namespace

TEST_CASE("memory of random plans is what a naive count gives") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    testing::SamplePlanOptions options;
    options.seed = seed;
    options.samples = 1 + seed % 6;
    options.pipelines = 1 + seed % 3;
    options.stages = 1 + seed % 3;
    options.merged = seed % 2 == 0 ? 2 : 0;
    options.split_weights = seed % 5 == 0;
    options.max_tokens = 24;
    options.cp = seed % 4 == 3 ? 2 : 1;
    options.block = static_cast<Tokens>(seed % 7);
    Plan plan = testing::sample_plan(options);
    if (seed % 3 != 0) testing::shuffle_orders(plan, seed);
    const testing::NaiveRun times(plan);
    const ToyMemory memory;
    const testing::NaiveMemory naive(plan, memory);
    const MemoryCurves curves = memory_over_time(plan, time_plan(plan), memory);
    REQUIRE(curves.stages.size() == plan.pipelines.size());
    for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
      for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
        const auto expected = naive.stage(p, s);
        const auto& curve = curves.stages[p][s];
        REQUIRE(curve.size() == 2 * expected.during.size() + 1);
        CHECK(curve[0].bytes == memory.static_bytes(s));
        std::size_t task = 0;
        for (std::size_t i = 0; i < expected.during.size(); ++i, ++task) {
          while (plan.pipelines[p].order[s][task].pass == Pass::weight) ++task;
          CHECK(curve[2 * i + 1].bytes == expected.during[i]);
          CHECK(curve[2 * i + 1].seconds == times.start[p][s][task]);
          CHECK(curve[2 * i + 2].bytes == expected.after[i]);
          CHECK(curve[2 * i + 2].seconds == times.finish[p][s][task]);
        }
        CHECK(curves.peak_bytes[p][s] == expected.peak);
        CHECK(curve.back().bytes == memory.static_bytes(s));
      }
    }
  }
}

TEST_CASE("in 1F1B stage s holds min(m, p - s) micro-batches at its peak") {
  const ToyMemory memory;
  for (std::size_t p = 1; p <= 4; ++p) {
    for (std::size_t m = 1; m <= 6; ++m) {
      INFO("p " << p << ", m " << m);
      const Plan plan = testing::equal_plan(p, m, 1.0, 2.0, 8);
      const MemoryCurves curves = memory_over_time(plan, time_plan(plan), memory);
      for (std::size_t s = 0; s < p; ++s) {
        const double live = double(std::min(m, p - s)) * 8.0 * memory.activation_bytes(s, 0);
        CHECK(curves.peak_bytes[0][s] == memory.static_bytes(s) + live + 8.0 * memory.kv_gradient_bytes(s) +
                                             memory.workspace_bytes(s, Pass::backward, 8, 0));
      }
    }
  }
}

TEST_CASE("tokens of one forward pack are held by the recomputation of their own backward packs") {
  Plan plan = testing::equal_plan(1, 1, 1.0, 1.0, 10);
  plan.backward = {};
  for (const Slice slice : {Slice{0, 4, 10}, Slice{0, 0, 4}}) {
    plan.backward.packs.add(slice);
    plan.backward.packs.close();
    plan.backward.pipelines.add_row(1, 0);
    plan.backward.seconds.add_row(1, 1.0);
    plan.backward.transfer_seconds.close();
    plan.backward.recompute_layers.add_row(1, slice.begin == 0 ? 2 : 1);
  }
  plan.pipelines[0].order = {{{Pass::forward, 0}, {Pass::backward, 0}, {Pass::backward, 1}}};
  const ToyMemory m;
  const auto curve = memory_over_time(plan, time_plan(plan), m).stages[0][0];
  REQUIRE(curve.size() == 7);
  const double both = 6 * m.activation_bytes(0, 1) + 4 * m.activation_bytes(0, 2),
               kv = m.kv_gradient_bytes(0);
  CHECK(curve[2].bytes == m.static_bytes(0) + both);
  CHECK(curve[3].bytes == m.static_bytes(0) + both + 10 * kv + m.workspace_bytes(0, Pass::backward, 6, 1));
  CHECK(curve[4].bytes == m.static_bytes(0) + 4 * m.activation_bytes(0, 2) + 4 * kv);
  CHECK(curve[6].bytes == m.static_bytes(0));
}

TEST_CASE("pipelines can have models of their own") {
  testing::SamplePlanOptions options;
  options.pipelines = 2;
  const Plan plan = testing::sample_plan(options);
  const Timeline timeline = time_plan(plan);
  const MemoryCurves one = memory_over_time(plan, timeline, ToyMemory{});
  const MemoryCurves two = memory_over_time(plan, timeline, std::vector<ToyMemory>{{1.0}, {2.0}});
  CHECK(two.peak_bytes[0] == one.peak_bytes[0]);
  CHECK(two.stages[1][0][0].bytes == 2.0 * one.stages[1][0][0].bytes);
  CHECK_THROWS_WITH(memory_over_time(plan, timeline, std::vector<ToyMemory>{{1.0}}),
                    "1 memory models for 2 pipelines; expected one for each");
}

TEST_CASE("missing recompute_layers and a foreign timeline are refused") {
  Plan plan = testing::equal_plan(1, 2, 1.0, 1.0);
  const Timeline timeline = time_plan(plan);
  CHECK_THROWS_AS(memory_over_time(plan, Timeline{}, ToyMemory{}), InvalidInput);
  plan.backward.recompute_layers = {};
  CHECK_THROWS_WITH(memory_over_time(plan, timeline, ToyMemory{}),
                    "the plan's 2 backward packs have 0 rows of recompute_layers; expected one for each");
}

TEST_CASE("a plan without pipelines has no curves") {
  CHECK(memory_over_time(Plan{}, Timeline{}, ToyMemory{}).stages.empty());
}
