#include "slimpack/plan/reshard_overlap.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "tests/effort.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using slimpack::testing::sample_plan, slimpack::testing::seeds;

namespace {

/// The plan's pipelines on consecutive devices.
Strategy strategy_on(const Plan& plan) {
  std::vector<PipelineSpec> pipelines;
  DeviceId next = 0;
  for (const PipelinePlan& p : plan.pipelines) {
    PipelineSpec& spec = pipelines.emplace_back();
    spec.tp = p.tp;
    spec.layers = p.layers;
    for (std::size_t s = 0; s < p.stages(); ++s) {
      spec.devices.emplace_back();
      for (std::int32_t r = 0; r < p.tp; ++r) spec.devices.back().push_back(next++);
    }
  }
  return strategy_of(pipelines);
}

std::vector<DeviceId> devices_of(const Strategy& strategy) {
  std::vector<DeviceId> out;
  for (const PipelineSpec& spec : strategy.pipelines) {
    for (const auto& stage : spec.devices) out.insert(out.end(), stage.begin(), stage.end());
  }
  return out;
}

}  // namespace

TEST_CASE("overlap never makes a step longer, nor shorter than its tasks and its slowest device") {
  double gained = 0.0;
  for (unsigned seed = 1; seed <= seeds(60, 15); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::vector<std::vector<std::vector<std::int32_t>>> shapes = {
        {{2, 2}, {4}}, {{1, 1, 2}, {2, 2}}, {{4}, {4}}, {{0, 4}, {3, 1}, {4}}};
    Plan plan = sample_plan({.seed = seed, .split_weights = seed % 2 == 0, .layers = shapes[seed % 4]});
    Device device = plan.device;
    device.intra_node.bandwidth = std::pow(10.0, 3.0 + double(random() % 5));
    device.inter_node.bandwidth = device.intra_node.bandwidth / 4;
    const Strategy strategy = strategy_on(plan);
    const ParameterShards optimiser =
        seed % 3 == 0 ? aligned_shards(strategy, plan.model) : full_shards(devices_of(strategy), plan.model);
    const DisaggregatedStep step = disaggregated_step(plan, strategy, optimiser, device);
    CHECK(step.apart.propagation == step.overlapped.propagation);
    CHECK(step.apart.optimiser == step.overlapped.optimiser);
    CHECK(step.overlapped.seconds() <= step.apart.seconds() * (1 + 1e-12));
    CHECK(step.overlapped.interaction >= -step.apart.optimiser - 1e-12);
    CHECK(step.overlapped.seconds() >=
          0.5 * step.apart.interaction);  // the slowest pull, or the slowest push
    gained += step.apart.seconds() - step.overlapped.seconds();
    device.intra_node = device.inter_node = {1e29, 0.0};
    device.memory_bandwidth = 1e29;
    const DisaggregatedStep free = disaggregated_step(plan, strategy, optimiser, device);
    CHECK(free.overlapped.seconds() == Approx(free.apart.propagation));
  }
  CHECK(gained > 0.0);
}

TEST_CASE("one stage that pulls from another device takes as long as by hand") {
  Plan plan = sample_plan({.samples = 1, .layers = {{3}}});
  plan.pipelines[0].tp = 1;
  Device device = plan.device;
  device.devices_per_node = 1;
  const Strategy strategy = strategy_of({{.tp = 1, .cp = 1, .layers = {3}, .devices = {{1}}}});
  const std::vector<DeviceId> keeper{0};
  const ParameterShards optimiser = full_shards(keeper, plan.model);
  for (const double bandwidth : {1e3, 1e4, 1e5, 1e6}) {
    device.inter_node = {bandwidth, 1e-3};
    const DisaggregatedStep step = disaggregated_step(plan, strategy, optimiser, device);
    const auto& order = plan.pipelines[0].order[0];
    const auto seconds = [&](Task t) { return plan.of(t.pass).seconds[t.pack][0]; };
    // Embedding, three layers, head: the layers and the head are a quarter of the first and the last task each.
    double arrived = 0.0, start = 0.0;
    for (std::size_t u = 0; u < 5; ++u) {
      arrived += device.inter_node.seconds(2.0 * double(optimiser.sizes[u]));
      start = std::max(start, arrived - (u == 0 ? 0.0 : double(u - 1) / 4 * seconds(order.front())));
    }
    for (const Task t : order) start += seconds(t);
    double pushed = arrived, total = 0.0;
    for (std::size_t u = 5; u-- > 0;) {
      const double ready = start - (u == 0 ? 0.0 : double(u - 1) / 4 * seconds(order.back()));
      pushed = std::max(pushed, ready) + device.inter_node.seconds(4.0 * double(optimiser.sizes[u]));
    }
    total = std::accumulate(optimiser.sizes.begin(), optimiser.sizes.end(), 0.0);
    CHECK(step.overlapped.seconds() ==
          Approx(pushed + total * SyncOptions{}.optimiser_bytes / device.memory_bandwidth));
  }
}

TEST_CASE("a strategy that is not the plan's is refused") {
  const Plan plan = sample_plan({.layers = {{2, 2}, {4}}});
  Strategy strategy = strategy_on(plan);
  const ParameterShards optimiser = full_shards(devices_of(strategy), plan.model);
  strategy.pipelines[0].layers = {1, 3};
  CHECK_THROWS_WITH(disaggregated_step(plan, strategy, optimiser, plan.device),
                    Catch::Contains("pipeline 0 has other layers"));
  strategy.pipelines.pop_back();
  CHECK_THROWS_WITH(disaggregated_step(plan, strategy, optimiser, plan.device),
                    Catch::Contains("expected the plan's 2"));
}
