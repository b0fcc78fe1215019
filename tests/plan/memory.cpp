#include "slimpack/plan/memory.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/plan/event_loop.hpp"
#include "tests/plan/held_tokens.hpp"
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

/// Bytes of a stage while each task of its order runs, and after it, by looking at every single token.
struct TokenByToken {
  std::vector<double> during, after;

  TokenByToken(const Plan& plan, std::size_t p, std::size_t s, const ToyMemory& memory) {
    const auto& order = plan.pipelines[p].order[s];
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i].pass == Pass::weight) continue;
      const PassPlan& pass = plan.of(order[i].pass);
      double own = 0.0;
      for (const Slice& slice : pass.packs[order[i].pack])
        own += testing::held_tokens(plan, order[i].pass, order[i].pack, p, slice);
      const double tokens = std::ceil(own - 1e-9);
      const int recompute_layers =
          order[i].pass == Pass::backward ? plan.backward.recompute_layers[order[i].pack][s] : 0;
      during.push_back(
          held(plan, order, p, i + 1, i, s, memory) +
          memory.workspace_bytes(s, order[i].pass, static_cast<Tokens>(tokens), recompute_layers));
      after.push_back(held(plan, order, p, i + 1, i + 1, s, memory));
    }
  }

 private:
  static std::size_t place(const std::vector<Task>& order, Task task) {
    return static_cast<std::size_t>(std::find(order.begin(), order.end(), task) - order.begin());
  }

  static std::size_t pack_of(const Packs& packs, SampleId sample, Tokens token) {
    for (std::size_t k = 0; k < packs.size(); ++k) {
      for (const Slice& slice : packs[k]) {
        if (slice.sample == sample && slice.begin <= token && token < slice.end) return k;
      }
    }
    return packs.size();
  }

  /// With the first `started` tasks of the order started and the first `ended` of them ended.
  static double held(const Plan& plan, const std::vector<Task>& order, std::size_t p, std::size_t started,
                     std::size_t ended, std::size_t s, const ToyMemory& memory) {
    double bytes = memory.static_bytes(s);
    for (SampleId sample = 0; sample < plan.tokens.size(); ++sample) {
      const auto first = static_cast<PackId>(pack_of(plan.backward.packs, sample, plan.tokens[sample] - 1));
      const bool begun = place(order, {Pass::backward, first}) < started;
      for (Tokens token = 0; token < plan.tokens[sample]; ++token) {
        const auto front = static_cast<PackId>(pack_of(plan.forward.packs, sample, token));
        const auto back = static_cast<PackId>(pack_of(plan.backward.packs, sample, token));
        const std::size_t from = place(order, {Pass::forward, front}),
                          to = place(order, {Pass::backward, back});
        if (from == order.size()) continue;  // on another pipeline
        const double share = testing::held_tokens(plan, Pass::forward, front, p, {sample, token, token + 1});
        if (from < started && to >= ended) {
          bytes += share * memory.activation_bytes(s, plan.backward.recompute_layers[back][s]);
        }
        if (begun && to >= ended) bytes += share * memory.kv_gradient_bytes(s);
      }
    }
    return bytes;
  }
};

}  // namespace

TEST_CASE("memory of random plans is what counting token by token gives") {
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
    const testing::EventLoop times(plan);
    const ToyMemory memory;
    const MemoryCurves curves = memory_over_time(plan, time_plan(plan), memory);
    REQUIRE(curves.stages.size() == plan.pipelines.size());
    for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
      for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
        const TokenByToken expected(plan, p, s, memory);
        const auto& curve = curves.stages[p][s];
        REQUIRE(curve.size() == 2 * expected.during.size() + 1);
        double peak = memory.static_bytes(s);
        CHECK(curve[0].bytes == memory.static_bytes(s));
        std::size_t task = 0;
        for (std::size_t i = 0; i < expected.during.size(); ++i, ++task) {
          while (plan.pipelines[p].order[s][task].pass == Pass::weight) ++task;
          CHECK(curve[2 * i + 1].bytes == expected.during[i]);
          CHECK(curve[2 * i + 1].seconds == times.start[p][s][task]);
          CHECK(curve[2 * i + 2].bytes == expected.after[i]);
          CHECK(curve[2 * i + 2].seconds == times.finish[p][s][task]);
          peak = std::max(peak, expected.during[i]);
        }
        CHECK(curves.peak_bytes[p][s] == peak);
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
