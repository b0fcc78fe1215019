#include "slimpack/planners/hydraulis.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "github.hpp"
#include "oracle.hpp"
#include "rules.hpp"
#include "slimpack/cost/synchronise.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "slimpack/strategy/strategy_bounds.hpp"
#include "tests/effort.hpp"
#include "tests/plan/naive_run.hpp"

using namespace slimpack;

namespace {

/// Kinds of pipelines of a small model on up to 24 devices, and samples with a heavy tail.
struct HydraulisCase {
  Job job;
  std::vector<Tokens> lengths;
  std::vector<Strategy> strategies;
};

HydraulisCase hydraulis_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  HydraulisCase c;
  c.job.model = transformer_preset("llama-7b");
  c.job.device = device_preset("a800");
  const int devices = 8 * pick(2, 3);
  c.job.layout = {.dp = devices, .tp = 1, .cp = 1, .pp = 1};
  const auto samples = static_cast<std::size_t>(pick(1, 60));
  c.lengths = oracle::random_lengths(random, samples, pick(0, 3), 20000);
  const auto place = [&](std::vector<SchemeCount> counts) {
    c.strategies.push_back(place_pipelines(c.job.model, c.job.device, devices, std::move(counts)));
  };
  place({{{8, 1, 1}, devices / 8}});
  place({{{4, 1, 2}, devices / 8}});
  place({{{8, 1, 1}, 1}, {{2, 1, 2}, (devices - 8) / 4}});
  place({{{4, 1, 2}, 1}, {{4, 1, 1}, 1}, {{2, 1, 1}, (devices - 12) / 2}});
  return c;
}

Plan plan_case(const HydraulisCase& c, std::span<const Strategy> strategies, bool slices) {
  return plan_hydraulis(c.lengths, c.job.model, c.job.device, strategies,
                        calibrated_kinds(c.job.model, c.job.device), {.slices = slices});
}

/// llama-13b on 16 A800 of which 12 GB each are kept free, without context parallelism: packs are about as long as memory allows.
struct ShortOfMemory {
  Transformer model = transformer_preset("llama-13b");
  Device device = device_preset("a800");
  std::vector<Tokens> lengths = oracle::github(10000, 32768);
  MakeKindModels make;
  std::vector<Strategy> strategies;

  ShortOfMemory() {
    device.inter_node.bandwidth = 5.6e9;
    make = calibrated_kinds(model, device, {.tp_overlap = 0.0}, {.reserve_bytes = 12e9});
    StrategySpace space;
    space.schemes = {.devices = 16, .most_cp = 1, .tp_across_nodes = true};
    strategies = candidate_strategies(LengthHistogram(lengths), model, device, make, space, true);
  }

  [[nodiscard]] HydraulisPlanner planner(std::vector<Strategy> among, HydraulisOptions options) const {
    return {model, device, std::move(among), make, std::move(options)};
  }
};

constexpr double infinite = std::numeric_limits<double>::infinity();
const HydraulisOptions plain_options{.two_stage = {.recompute = false}};

/// Seconds of a plan's step; infinite if no strategy holds the longest sample.
template <class MakePlan>
double step_of_plan(const MakePlan& make) {
  try {
    return make().step.seconds;
  } catch (const InvalidInput&) {
    return infinite;
  }
}

double step_of(const HydraulisCase& c, std::span<const Strategy> strategies,
               const HydraulisOptions& options) {
  return step_of_plan([&] {
    return plan_hydraulis(c.lengths, c.job.model, c.job.device, strategies,
                          calibrated_kinds(c.job.model, c.job.device), options);
  });
}

}  // namespace

TEST_CASE("plans on unequal pipelines keep all rules, and take the time that they state") {
  int unequal = 0, idle = 0;
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(40, 6); ++seed) {
    const HydraulisCase c = hydraulis_case(seed);
    for (const Strategy& strategy : c.strategies) {
      for (const bool slices : {false, true}) {
        INFO("seed " << seed << ", slices " << slices << ", " << to_text(strategy));
        const Plan plan = plan_case(c, {&strategy, 1}, slices);
        CHECK(violations(plan).empty());
        CHECK(oracle::broken_rule(plan).empty());
        CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
        CHECK(plan.step.lower_bound_seconds <= plan.step.seconds);
        CHECK(plan.step.lower_bound_seconds > plan.step.sync_seconds);
        CHECK(plan.pipelines.size() == strategy.pipelines.size());
        for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
          CHECK(plan.pipelines[p].devices == strategy.pipelines[p].devices);
          idle += plan.pipelines[p].order[0].empty() ? 1 : 0;
        }
        CHECK(to_json(plan) == to_json(plan_case(c, {&strategy, 1}, slices)));
        unequal += strategy.kinds() > 1 ? 1 : 0;
      }
    }
  }
  CHECK(unequal > 20);
  CHECK(idle > 20);
}

TEST_CASE("more strategies, recomputation and slices never make a step longer") {
  int sliced_faster = 0;
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(40, 4); ++seed) {
    INFO("seed " << seed);
    const HydraulisCase c = hydraulis_case(seed);
    double before = infinite;
    for (const HydraulisOptions& options :
         {plain_options, HydraulisOptions{}, HydraulisOptions{.slices = true}}) {
      const double all = step_of(c, c.strategies, options);
      for (const Strategy& strategy : c.strategies)
        CHECK(all <= step_of(c, {&strategy, 1}, options) * (1.0 + 1e-12));
      CHECK(all <= before * (1.0 + 1e-12));
      sliced_faster += options.slices && all < 0.99 * before ? 1 : 0;
      before = all;
    }
  }
  if (!slimpack::testing::few) CHECK(sliced_faster > 5);
}

TEST_CASE("recomputation never makes a step longer where packs are as long as memory allows") {
  const ShortOfMemory c;
  HydraulisPlanner plain = c.planner(c.strategies, plain_options), recomputing = c.planner(c.strategies, {});
  int faster = 0;
  const auto check = [&](std::size_t begin, std::size_t samples) {
    CAPTURE(begin, samples);
    const std::span<const Tokens> lengths(c.lengths.data() + begin, samples);
    const double without = plain(lengths).step.seconds, with = recomputing(lengths).step.seconds;
    CHECK(with <= without * (1.0 + 1e-12));
    faster += with < 0.99 * without ? 1 : 0;
  };
  const std::size_t batches = slimpack::testing::seeds(16, 8), samples = 41;
  for (std::size_t b = 0; b < batches; ++b) check(b * samples, samples);
  check(0, HydraulisOptions{}.most_in_full + 1);
  CHECK(faster > 0);
}

TEST_CASE("no strategy alone is better than the one chosen for a small batch") {
  const ShortOfMemory c;
  const std::size_t batches = slimpack::testing::seeds(8, 2), samples = 41;
  for (const HydraulisOptions& options : {plain_options, HydraulisOptions{}}) {
    HydraulisPlanner planner = c.planner(c.strategies, options);
    for (std::size_t b = 0; b < batches; ++b) {
      const std::span<const Tokens> lengths(c.lengths.data() + b * samples, samples);
      const double step = planner(lengths).step.seconds;
      for (const Strategy& strategy : c.strategies) {
        CAPTURE(b, options.two_stage.recompute, to_text(strategy));
        CHECK(step <= step_of_plan([&] { return c.planner({strategy}, options)(lengths); }) * (1.0 + 1e-12));
      }
    }
  }
}

TEST_CASE("where optimiser states stay with a strategy, others cost what moves from and to them") {
  int dearer = 0, kept = 0;
  for (unsigned seed = 1; seed <= 24; ++seed) {
    CAPTURE(seed);
    const HydraulisCase c = hydraulis_case(seed);
    const Strategy& home = c.strategies[seed % 2];
    const MakeKindModels make = calibrated_kinds(c.job.model, c.job.device, {.sync = {.shards = &home}});
    double best = std::numeric_limits<double>::infinity(), at_home = best;
    for (const Strategy& strategy : c.strategies) {
      const Plan alone = plan_hydraulis(c.lengths, c.job.model, c.job.device, {&strategy, 1}, make);
      const double sync = sync_seconds(strategy, c.job.model, c.job.device, {.shards = &home});
      CHECK(alone.step.sync_seconds == Approx(sync).epsilon(1e-12));
      if (&strategy != &home && sync > sync_seconds(strategy, c.job.model, c.job.device)) ++dearer;
      if (&strategy == &home) at_home = alone.step.seconds;
      best = std::min(best, alone.step.seconds);
    }
    const Plan plan = plan_hydraulis(c.lengths, c.job.model, c.job.device, c.strategies, make);
    CHECK(plan.step.seconds <= best * (1.0 + 1e-12));
    if (plan.step.seconds >= at_home && plan_case(c, c.strategies, false).step.seconds < at_home) ++kept;
  }
  CHECK(dearer > 0);
  CHECK(kept > 0);  // another strategy is faster, but not by what moving takes
}

TEST_CASE("small batches on equal pipelines take no longer than with plan_megatron") {
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(40, 6); ++seed) {
    CAPTURE(seed);
    HydraulisCase c = hydraulis_case(seed);
    const std::int32_t devices = c.job.layout.dp;
    for (const Layout& layout :
         {Layout{.dp = devices / 8, .tp = 8}, Layout{.dp = devices / 8, .tp = 4, .pp = 2}}) {
      if (c.lengths.size() < static_cast<std::size_t>(layout.dp)) continue;
      c.job.layout = layout;
      const Strategy strategy = layout_strategy(c.job);
      const Plan plan = plan_case(c, {&strategy, 1}, false);
      const Plan megatron = plan_megatron(c.lengths, c.job, {.choose_cp = false});
      CHECK(plan.step.pipeline_seconds <= megatron.step.pipeline_seconds * (1.0 + 1e-12));
    }
  }
}

TEST_CASE("with slices, equal pipelines take no longer than with plan_slimpack") {
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(20, 3); ++seed) {
    INFO("seed " << seed);
    HydraulisCase c = hydraulis_case(seed);
    c.job.layout = {.dp = c.job.layout.dp / 8, .tp = 8, .cp = 1, .pp = 1};
    if (c.lengths.size() < static_cast<std::size_t>(c.job.layout.dp)) continue;
    const Plan slimpack = plan_slimpack(c.lengths, c.job);
    CHECK(plan_case(c, {&c.strategies[0], 1}, true).step.pipeline_seconds <=
          slimpack.step.pipeline_seconds * (1.0 + 1e-9));
  }
}

TEST_CASE("with slices, strategies none of whose pipelines hold the longest sample are passed over") {
  HydraulisCase c = hydraulis_case(1);
  c.job.device.memory_bytes = 40e9;
  c.lengths.assign(63, 3000);
  c.lengths.push_back(128623);
  const std::vector<Strategy> strategies{
      place_pipelines(c.job.model, c.job.device, 16, {{Scheme{4, 1, 1}, 1}}),
      place_pipelines(c.job.model, c.job.device, 16, {{Scheme{8, 1, 2}, 1}})};
  const Plan plan = plan_case(c, strategies, true);
  CHECK(plan.pipelines[0].tp == 8);
  CHECK_THROWS_WITH(plan_case(c, {strategies.data(), 1}, true), Catch::Contains("fits none of 1 strategies"));
}

TEST_CASE("the strategy of the step before stays unless another one is faster by more than a margin") {
  const HydraulisCase c = hydraulis_case(3);
  const MakeKindModels make = calibrated_kinds(c.job.model, c.job.device);
  const auto chosen = [&](double hysteresis, const Strategy& current) {
    HydraulisOptions options{.current = current};
    options.hysteresis = hysteresis;
    const Plan plan = plan_hydraulis(c.lengths, c.job.model, c.job.device, c.strategies, make, options);
    return plan.step.seconds;
  };
  int slower = 0;
  for (const Strategy& current : c.strategies) {
    const double alone = plan_case(c, {&current, 1}, false).step.seconds;
    CHECK(chosen(1000.0, current) == Approx(alone));
    CHECK(chosen(0.0, current) <= alone * (1.0 + 1e-9));
    double other = infinite;
    for (const Strategy& strategy : c.strategies) {
      if (strategy != current) other = std::min(other, plan_case(c, {&strategy, 1}, false).step.seconds);
    }
    if (other > 0.999 * alone) continue;
    const double gain = alone / other - 1.0;
    CHECK(chosen(0.98 * gain, current) == Approx(other));
    CHECK(chosen(1.02 * gain, current) == Approx(alone));
    ++slower;
  }
  CHECK(slower > 0);
}

TEST_CASE("the strategy of the step before is a candidate even if it is not among those that are given") {
  const HydraulisCase c = hydraulis_case(3);
  const MakeKindModels make = calibrated_kinds(c.job.model, c.job.device);
  const Strategy& before = c.strategies.front();
  const std::span<const Strategy> others(c.strategies.data() + 1, c.strategies.size() - 1);
  HydraulisOptions options{.current = before};
  options.hysteresis = 1000.0;
  const Plan stays = plan_hydraulis(c.lengths, c.job.model, c.job.device, others, make, options);
  CHECK(stays.step.seconds == Approx(plan_case(c, {&before, 1}, false).step.seconds));
  Strategy other_model = before;
  for (PipelineSpec& spec : other_model.pipelines) ++spec.layers.front();
  options.current = other_model;
  CHECK_THROWS_AS(plan_hydraulis(c.lengths, c.job.model, c.job.device, others, make, options), InvalidInput);
  options.current = before;
  const MakeKindModels refuses = [&](const Strategy& strategy, std::uint32_t kind) {
    require(strategy != before, "out of order");
    return make(strategy, kind);
  };
  CHECK_THROWS_WITH(plan_hydraulis(c.lengths, c.job.model, c.job.device, others, refuses, options),
                    Catch::Contains("the strategy of the step before can't be used: out of order"));
}

TEST_CASE(
    "proposals contain equal pipelines, use no more devices than there are, and hold the longest sample") {
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(6, 2); ++seed) {
    INFO("seed " << seed);
    const HydraulisCase c = hydraulis_case(seed);
    StrategySpace space;
    space.schemes.devices = c.job.layout.dp;
    const MakeKindModels make = calibrated_kinds(c.job.model, c.job.device);
    const auto strategies =
        candidate_strategies(LengthHistogram(c.lengths), c.job.model, c.job.device, make, space, true);
    CHECK(std::find(strategies.begin(), strategies.end(), c.strategies[0]) != strategies.end());
    for (const Strategy& strategy : strategies) CHECK_NOTHROW(validate(strategy, c.job.model));
    const Plan plan = plan_hydraulis(c.lengths, c.job);
    CHECK(violations(plan).empty());
    CHECK(plan.step.seconds <= plan_case(c, {c.strategies.data(), 2}, false).step.seconds * (1.0 + 1e-9));
  }
}

TEST_CASE("a planner gives each batch the plan that a call for it gives") {
  const HydraulisCase c = hydraulis_case(2);
  HydraulisPlanner planner(c.job.model, c.job.device, c.strategies,
                           calibrated_kinds(c.job.model, c.job.device));
  for (unsigned seed = 2; seed <= 6; ++seed) {
    INFO("seed " << seed);
    HydraulisCase other = hydraulis_case(seed);
    other.strategies = c.strategies;
    CHECK(to_json(planner(other.lengths)) == to_json(plan_case(other, c.strategies, false)));
  }
}

TEST_CASE("no plan on a strategy takes less than its bound") {
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(40, 6); ++seed) {
    INFO("seed " << seed);
    HydraulisCase c = hydraulis_case(seed);
    // More samples than classes.
    while (seed % 2 == 0 && c.lengths.size() < 300) c.lengths.push_back(c.lengths[c.lengths.size() / 2] + 1);
    const MakeKindModels make = calibrated_kinds(c.job.model, c.job.device);
    const StrategySet set(c.job.model, c.strategies, make);
    StrategyBounds bounds(c.lengths, set);
    for (std::size_t i = 0; i < set.size(); ++i) {
      double before = infinite;
      for (const auto& [freedom, options] :
           {std::pair{PlanFreedom::whole, plain_options},
            std::pair{PlanFreedom::recompute, HydraulisOptions{}},
            std::pair{PlanFreedom::slices, HydraulisOptions{.slices = true}}}) {
        if (!bounds.holds(i, freedom)) continue;
        const double step = step_of(c, {&set.strategy(i), 1}, options), bound = bounds(i, freedom);
        CHECK(bound <= step * (1.0 + 1e-9));
        CHECK(bound <= before * (1.0 + 1e-9));
        CHECK(bound == StrategyBounds(c.lengths, set)(i, freedom));
        before = bound;
        if (freedom == PlanFreedom::slices) continue;
        CHECK(bounds.estimate(i, freedom) > 0.5 * step);
        CHECK(bounds.estimate(i, freedom) < 1.5 * step);
      }
    }
  }
}

TEST_CASE("hydraulis refuses what no strategy holds, with the scheme that comes closest") {
  const Job job{.model = transformer_preset("llama-7b"),
                .device = device_preset("a800"),
                .layout = {.dp = 8, .tp = 1, .cp = 1, .pp = 1}};
  CHECK_THROWS_WITH(plan_hydraulis(std::vector<Tokens>{100, 100000000}, job),
                    Catch::Contains("a sample of 100000000 tokens fits no scheme of 8 devices") &&
                        Catch::Contains("comes closest with") && Catch::Contains("GB on a device for it"));
  CHECK_THROWS_WITH(plan_hydraulis(std::vector<Tokens>{}, job), Catch::Contains("no samples"));
  CHECK_THROWS_WITH(plan_hydraulis(std::vector<Tokens>{5}, job.model, job.device, {}, {}, {}),
                    Catch::Contains("there are no strategies"));
  HydraulisCase longer = hydraulis_case(1);
  longer.lengths.push_back(50000000);
  CHECK_THROWS_WITH(
      plan_case(longer, longer.strategies, false),
      Catch::Contains("a sample of 50000000 tokens fits none of 4 strategies; (tp 8, cp 1, pp 1) "
                      "comes closest with") &&
          Catch::Contains("GB on a device for it, with all layers recomputed"));
  const HydraulisCase c = hydraulis_case(1);
  HydraulisOptions options;
  options.hysteresis = -1.0;
  CHECK_THROWS_WITH(plan_hydraulis(c.lengths, c.job.model, c.job.device, c.strategies,
                                   calibrated_kinds(c.job.model, c.job.device), options),
                    Catch::Contains("hysteresis is -1"));
  options = {.slices = true};
  options.slimpack.search.less_memory = 1.0;
  CHECK_THROWS_WITH(plan_hydraulis(c.lengths, c.job.model, c.job.device, c.strategies,
                                   calibrated_kinds(c.job.model, c.job.device), options),
                    Catch::Contains("less_memory is 1"));
}

TEST_CASE("what a pipeline is said to lack is what makes a sample fit") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const HydraulisCase c = hydraulis_case(seed);
    const Strategy& strategy = c.strategies[seed % 4];
    const PipelineSpec& spec = strategy.spec_of_kind(0);
    const std::int32_t layers = seed % 3 == 0 ? 0 : 100;
    const Tokens longer = 100000 + 1000 * static_cast<Tokens>(seed);
    const auto memory_of = [&](const Device& device) {
      return Memory(TransformerMemory(c.job.model, device, spec, 1), spec.layers, true);
    };
    const double lacks = full_pack_shortage(memory_of(c.job.device), longer, layers);
    Device more = c.job.device;
    more.memory_bytes += lacks + 1e6;
    CHECK(largest_full_pack(memory_of(more), layers) >= longer);
    more.memory_bytes -= 2e6;
    CHECK(largest_full_pack(memory_of(more), layers) < longer);
  }
}

TEST_CASE("devices that no pipelines divide, and intervals without a length, are refused") {
  const std::vector<Tokens> lengths{100, 2000};
  const auto refused = [&](const Job& job, const StrategySpace& space, const char* text) {
    CHECK_THROWS_WITH(plan_hydraulis(lengths, job, LengthHistogram(lengths), {}, space,
                                     calibrated_kinds(job.model, job.device)),
                      Catch::Contains(text));
  };
  // Weights that fit on no less than two devices.
  Job job{.model = transformer_preset("llama-7b"), .device = device_preset("a800"), .layout = {.dp = 67}};
  job.device.memory_bytes = 3e10;
  refused(
      job, {.schemes = {.most_cp = 1}},
      "pipelines take at most 66 of 67 devices, for the smallest that the model fits on has 2; expected a "
      "number of devices that pipelines divide, such as 66 or 68");
  // Five devices make a pipeline of five stages, though they don't divide the layers.
  job.layout.dp = 5;
  job.device.memory_bytes = 5.5e10;
  CHECK(plan_hydraulis(lengths, job).pipelines.size() == 1);
  refused(job, {.interval = 0}, "interval is 0; expected at least 1 token");
  refused(job, {.intervals = 0}, "intervals is 0; expected at least 1");
  CHECK_THROWS_WITH(LengthHistogram(std::vector<LengthHistogram::Entry>{}), Catch::Contains("no samples"));
  CHECK_THROWS_WITH(LengthHistogram({{5, 1}, {7, 0}}), Catch::Contains("entry 1 has 0 samples"));
  CHECK_THROWS_WITH(LengthHistogram({{5, 1}, {5, 2}}), Catch::Contains("entry 1 is of length 5"));
}
