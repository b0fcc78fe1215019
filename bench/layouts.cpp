// The best layout of a number of devices: whole searches on one core, of SlimPack and of the Megatron baseline, llama-13b on
// H100. Items are layouts. Arguments: devices, samples, tokens of context. Counters: layouts that were planned, the others
// being pruned or refused, and the best step in seconds. Lengths: examples/data/github.train.txt, or the file that
// SLIMPACK_LENGTHS names.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "lengths.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/best_layout.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"

#ifndef SLIMPACK_SOURCE_DIR
#define SLIMPACK_SOURCE_DIR "."  // run from the repository's root, then
#endif

namespace {

using namespace slimpack;

template <class MakePlan>
void search(benchmark::State& state, const MakePlan& plan) {
  const Tokens context = state.range(2);
  const std::vector<Tokens> lengths =
      bench::lengths(static_cast<std::size_t>(state.range(1)), context, "SLIMPACK_LENGTHS",
                     SLIMPACK_SOURCE_DIR "/examples/data/github.train.txt");
  const Job job{.model = transformer_preset("llama-13b"), .device = device_preset("h100"), .layout = {}};
  const auto bound = [](std::span<const Tokens> tokens, const Job& own) { return layout_bound(tokens, own); };
  const auto make = [&](std::span<const Tokens> tokens, const Job& own) {
    return plan(tokens, own, context);
  };
  LayoutChoice<Plan> choice;
  for (auto _ : state) {
    choice = plan_best_layout(lengths, job, {.devices = state.range(0)}, make, bound);
    benchmark::DoNotOptimize(choice);
  }
  const auto planned = std::count_if(choice.rows.begin(), choice.rows.end(),
                                     [](const LayoutRow& row) { return row.fate == LayoutFate::planned; });
  state.SetItemsProcessed(static_cast<std::int64_t>(choice.rows.size()) *
                          static_cast<std::int64_t>(state.iterations()));
  state.counters["planned"] = static_cast<double>(planned);
  state.counters["step_s"] = choice.planned.step.seconds;
}

void slimpack_layouts(benchmark::State& state) {
  search(state, [](std::span<const Tokens> lengths, const Job& job, Tokens context) {
    return plan_slimpack(lengths, job, {.context = context});
  });
}

void megatron_layouts(benchmark::State& state) {
  search(state, [](std::span<const Tokens> lengths, const Job& job, Tokens context) {
    return plan_megatron(lengths, job, {.context = context});
  });
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"devices", "samples", "context"})->Unit(benchmark::kMillisecond);
  for (const std::int64_t devices : {32, 128, 1024}) b->Args({devices, 512, 262144});
  b->Args({128, 2048, 262144});
}

BENCHMARK(slimpack_layouts)->Apply(sizes);
BENCHMARK(megatron_layouts)->Apply(sizes);

}  // namespace
