// Planning time and plan quality. SLIMPACK_LENGTHS names another file of lengths than the one that ships.
#include <benchmark/benchmark.h>

#include "bench/lengths.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"

namespace {

using namespace slimpack;

// Arguments: samples, dp, pp, context in units of 1024 tokens.
template <class Planner>
void run(benchmark::State& state, Planner&& planner) {
  const Tokens context = state.range(3) * 1024;
  const auto lengths = bench::lengths(static_cast<std::size_t>(state.range(0)), context, "SLIMPACK_LENGTHS",
                                      "examples/data/github.train.txt");
  const Job job{.model = transformer_preset("llama-13b"),
                .device = device_preset("h100"),
                .layout = {.dp = static_cast<std::int32_t>(state.range(1)), .pp = static_cast<std::int32_t>(state.range(2))}};
  Plan plan;
  for (auto _ : state) {
    plan = planner(lengths, job, context);
    benchmark::DoNotOptimize(plan);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["step_seconds"] = plan.step.seconds;
  state.counters["gap"] = plan.step.gap();
  state.counters["packs"] = static_cast<double>(plan.forward.packs.size());
}

void slimpack_planner(benchmark::State& state) {
  run(state, [](const auto& lengths, const Job& job, Tokens) { return plan_slimpack(lengths, job); });
}
void megatron_planner(benchmark::State& state) {
  run(state, [](const auto& lengths, const Job& job, Tokens context) { return plan_megatron(lengths, job, {.context = context}); });
}

void settings(benchmark::internal::Benchmark* b) {
  for (const int samples : {512, 2048}) {
    for (const int context : {64, 128, 256}) b->Args({samples, 16, 8, context});
  }
  b->Args({8192, 64, 8, 128})->Args({65536, 512, 16, 128})->Unit(benchmark::kMillisecond);
}
BENCHMARK(slimpack_planner)->Apply(settings);
BENCHMARK(megatron_planner)->Apply(settings);

// Documents into `state.range(0)` packs of equal work in one stream: max over mean, and the time of one cut.
void slices_over_ranks(benchmark::State& state) {
  const CalibratedCost cost({transformer_preset("llama-7b"), device_preset("h100"), {}});
  auto lengths = bench::lengths(2048, 262144, "SLIMPACK_DOCUMENTS");
  std::sort(lengths.begin(), lengths.end(), std::greater<>{});
  std::vector<StreamSample> samples;
  for (SampleId i = 0; i < lengths.size(); ++i) {
    samples.push_back({i, lengths[i], cost.pipeline_seconds(0, lengths[i], Pass::forward)});
  }
  MicroPackCutter cutter;
  Packs packs;
  for (auto _ : state) {
    packs.clear();
    cutter.cut({.samples = samples}, static_cast<std::size_t>(state.range(0)), cost, Pass::forward, {.tile = state.range(1)}, packs);
    benchmark::DoNotOptimize(packs);
  }
  double longest = 0.0, sum = 0.0;
  for (std::size_t k = 0; k < packs.size(); ++k) {
    double seconds = 0.0;
    for (const Slice& slice : packs[k]) seconds += cost.pipeline_seconds(slice.begin, slice.end, Pass::forward);
    longest = std::max(longest, seconds);
    sum += seconds;
  }
  state.counters["max_over_mean"] = longest * static_cast<double>(packs.size()) / sum;
}
BENCHMARK(slices_over_ranks)->Args({32, 1})->Args({32, 128})->Args({128, 128})->Unit(benchmark::kMicrosecond);

}  // namespace
