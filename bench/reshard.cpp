// Planning how parameters move from an optimiser on all devices to pipelines of four kinds. The argument is the number of
// devices. Counters: moves, and seconds that the pull takes on the simulated devices with bf16 parameters.
#include "slimpack/strategy/reshard.hpp"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/strategy/reshard_seconds.hpp"

namespace {

using namespace slimpack;

/// Sixteen devices make one pipeline: tp 8, 4, 2 and 1 in turn.
Strategy unequal_strategy(const Transformer& model, std::int64_t devices) {
  std::vector<PipelineSpec> pipelines;
  DeviceId next = 0;
  for (std::int64_t p = 0; p < devices / 16; ++p) {
    PipelineSpec spec;
    spec.tp = 8 >> (p % 4);
    spec.layers = split_layers(model.layers, 16 / spec.tp);
    for (std::size_t s = 0; s < spec.stages(); ++s) {
      spec.devices.emplace_back(static_cast<std::size_t>(spec.tp));
      for (DeviceId& id : spec.devices.back()) id = next++;
    }
    pipelines.push_back(spec);
  }
  return strategy_of(pipelines);
}

void plan_pull(benchmark::State& state) {
  const Transformer model = transformer_preset("llama-70b");
  const Device device = device_preset("h100");
  const Strategy strategy = unequal_strategy(model, state.range(0));
  std::vector<DeviceId> devices(static_cast<std::size_t>(state.range(0)));
  std::iota(devices.begin(), devices.end(), DeviceId{0});
  const ParameterShards from = full_shards(devices, model), to = propagation_shards(strategy, model);
  ReshardPlan plan;
  for (auto _ : state) {
    plan = plan_reshard(from, to, device);
    benchmark::DoNotOptimize(plan.moves);
  }
  state.counters["moves"] = static_cast<double>(plan.moves.values().size());
  state.counters["pull_seconds"] = reshard_seconds(plan, device, 2.0).slowest();
}
BENCHMARK(plan_pull)->Arg(64)->Arg(256)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
