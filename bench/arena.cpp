#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/lengths.hpp"
#include "kernels/cuda/arena_plan.hpp"
#include "kernels/cuda/arena_plan_walk.hpp"
#include "kernels/cuda/stage_memory.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/exec/program.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"

// How long it takes to find a place for everything that a GPU's stage stores in a step, before the step: a
// stage of two layers of llama-13b, lengths from the file that SLIMPACK_LENGTHS names or, without it, drawn
// at random.
namespace {

using namespace slimpack;
using namespace slimpack::kernels;

struct Device32 {
  static constexpr std::size_t product_workspace = std::size_t{32} << 20U;
};
using ArenaMemory = BackEndMemory<cuda::DeviceSizes<Device32>>;

/// @param state arguments: samples, tokens of the longest. `over_used`: units of the arena over those in use
/// at a time.
void place_step(benchmark::State& state, bool sliced) {
  constexpr std::int32_t stages = 8;
  Transformer model = transformer_preset("llama-13b");
  model.layers = 2 * stages;
  const Job job{model, device_preset("h200"), {.dp = 1, .pp = stages}};
  const ArenaMemory memory(model, split_layers(model.layers, stages), sizeof(float),
                           {.limit_bytes = job.device.memory_bytes});
  const Tokens context = state.range(1);
  const auto lengths = bench::lengths(static_cast<std::size_t>(state.range(0)), context, "SLIMPACK_LENGTHS");
  const CalibratedCost cost(job);
  const Plan plan = sliced ? plan_slimpack(lengths, job, cost, memory, {.tile = 128, .merge = false})
                           : plan_megatron(lengths, job, cost, memory, {.context = context});
  const StageProgram program(plan, 0, stages / 2);
  cuda::ArenaPlan arena(stage_part(plan.model, plan, 0, stages / 2), {});
  for (auto _ : state) {
    arena.begin_step(program);
    benchmark::DoNotOptimize(arena.units());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(program.tasks().size()));
  state.counters["tasks"] = static_cast<double>(program.tasks().size());
  state.counters["over_used"] = static_cast<double>(arena.units()) / static_cast<double>(arena.used_units());
}

void place_samples(benchmark::State& state) { place_step(state, false); }
void place_slices(benchmark::State& state) { place_step(state, true); }

}  // namespace

BENCHMARK(place_samples)->Args({768, 32768})->Args({4096, 4096})->Unit(benchmark::kMillisecond);
BENCHMARK(place_slices)->Args({768, 32768})->Args({4096, 4096})->Unit(benchmark::kMillisecond);
