// What driving a trainer from a plan costs in addition to the trainer: the loop per task (compared with a raw
// walk over the tasks), building a stage's program, hashing a plan, ownership of merged samples. Plan: 2048
// samples on 16 pipelines of 8 stages; lengths from the file that SLIMPACK_LENGTHS names, or else log-normal.
// per_task: seconds of one walk over its tasks, with up to eight callbacks each.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/lengths.hpp"
#include "slimpack/exec/budget.hpp"
#include "slimpack/exec/hash.hpp"
#include "slimpack/exec/loop.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/slimpack.hpp"

namespace {

using namespace slimpack;

const Plan& plan() {
  static const Plan result = [] {
    const Job job{.model = transformer_preset("llama-13b"),
                  .device = device_preset("h100"),
                  .layout = {.dp = 16, .tp = 8, .pp = 8}};
    return plan_slimpack(bench::lengths(2048, 131072, "SLIMPACK_LENGTHS"), job);
  }();
  return result;
}

/// Callbacks that do nothing but can't be optimised away.
struct Idle {
  std::uint64_t calls = 0;

  void call(const StageTask& task) {
    benchmark::DoNotOptimize(&task);
    benchmark::DoNotOptimize(++calls);
  }
  void post_receive_activations(const StageTask& task) { call(task); }
  void post_receive_gradients(const StageTask& task) { call(task); }
  void receive_activations(const StageTask& task) { call(task); }
  void forward(const StageTask& task) { call(task); }
  void send_activations(const StageTask& task) { call(task); }
  void receive_gradients(const StageTask& task) { call(task); }
  void recompute(const StageTask& task) { call(task); }
  void backward(const StageTask& task) { call(task); }
  void send_gradients(const StageTask& task) { call(task); }
  void release(const StageTask& task) { call(task); }
  void started(const StageTask& task) { call(task); }
  void finished(const StageTask& task) { call(task); }
  void end_of_step() {}
};

void count_tasks(benchmark::State& state, std::size_t tasks) {
  const auto all = static_cast<double>(state.iterations()) * static_cast<double>(tasks);
  state.counters["tasks"] = static_cast<double>(tasks);
  state.counters["per_task"] =
      benchmark::Counter(all, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void raw_walk(benchmark::State& state) {
  const StageProgram program(plan(), 0, 3);
  Idle idle;
  for (auto _ : state) {
    for (const StageTask& task : program.tasks()) idle.forward(task);
  }
  count_tasks(state, program.tasks().size());
}
BENCHMARK(raw_walk);

void loop(benchmark::State& state) {
  const StageProgram program(plan(), 0, 3);
  Idle idle;
  for (auto _ : state) run_stage(program, idle);
  count_tasks(state, program.tasks().size());
}
BENCHMARK(loop);

void loop_with_budget(benchmark::State& state) {
  const StageProgram program(plan(), 0, 3);
  const TransformerMemory memory(
      {.model = plan().model, .device = plan().device, .layout = {.dp = 16, .tp = 8, .pp = 8}});
  for (auto _ : state) benchmark::DoNotOptimize(predicted_high_water(program, memory));
  count_tasks(state, program.tasks().size());
}
BENCHMARK(loop_with_budget);

void build_program(benchmark::State& state) {
  for (auto _ : state) {
    const StageProgram program(plan(), 0, 3);
    benchmark::DoNotOptimize(program.tasks().data());
  }
  state.counters["slices"] =
      static_cast<double>(plan().forward.packs.slices().size() + plan().backward.packs.slices().size());
}
BENCHMARK(build_program)->Unit(benchmark::kMicrosecond);

void hash_plan(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(plan_hash(plan()));
}
BENCHMARK(hash_plan)->Unit(benchmark::kMicrosecond);

void ranges_of_a_megatoken(benchmark::State& state) {
  std::vector<Slice> out;
  for (auto _ : state) {
    out.clear();
    owned_ranges({0, 0, 1 << 20}, 8, 3, default_ownership_block, out);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(out.size()));
}
BENCHMARK(ranges_of_a_megatoken)->Unit(benchmark::kMicrosecond);

}  // namespace
