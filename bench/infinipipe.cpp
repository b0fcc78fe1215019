// InfiniPipe's planner and its checkpointing programs on one core: a Llama of 13B, stages of 8 A800s, 512 samples. Lengths:
// examples/data/github.train.txt, or the file that SLIMPACK_LENGTHS names; cut to the context.
//
// plan_infinipipe: a whole call. Arguments: tokens of context, stages, GB of memory, slices of the longest sample (0: searched, with
// groups of sequences; otherwise without).
//
// checkpointing_programs: programs that batches lead to, of about 64 chunks on 8 stages: 10 batches, contexts of 64K, 128K and 192K, devices
// of 25 to 60 GB, three orders of passes. Argument: nodes; 1 for `quick_covering`. Counters over all that need recomputation: how many
// there are, median and longest time, mean and largest gap, and how many gaps are at most 1 %.
//
// dropped_keys: what it could bring at most to drop keys and values of recomputed layers as well (the factor 3 - 2 I of Eq. 9): here all are
// dropped, though only those of samples' last slices may be, and computing them again is free. Arguments as plan_infinipipe. Counters: seconds
// of a step as planned, and with them dropped.
//
// breakdown: where a device's time goes on 32 A800s, after Figure 9: seconds of a step, and of computation, recomputation, communication
// that is not hidden, and the rest, which is waiting. Argument: tokens of context.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <string>
#include <vector>

#include "bench/lengths.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/chunk_pipelines.hpp"
#include "slimpack/planners/chunk_search.hpp"
#include "slimpack/planners/deepspeed.hpp"
#include "slimpack/planners/flexsp.hpp"

#ifndef SLIMPACK_SOURCE_DIR
#define SLIMPACK_SOURCE_DIR "."  // run from the repository's root, then
#endif

namespace {

using namespace slimpack;

std::vector<Tokens> batch(std::size_t number, Tokens context) {
  const std::vector<Tokens> all = bench::lengths(512 * (number + 1), context, "SLIMPACK_LENGTHS",
                                                 SLIMPACK_SOURCE_DIR "/examples/data/github.train.txt");
  return {all.end() - 512, all.end()};
}

Job job_of(std::int64_t stages, std::int64_t gigabytes) {
  Job job{.model = transformer_preset("llama-13b"),
          .device = device_preset("a800"),
          .layout = {.dp = 1, .tp = 1, .cp = 8, .pp = static_cast<std::int32_t>(stages)}};
  job.device.memory_bytes = 1e9 * static_cast<double>(gigabytes);
  return job;
}

void plan_infinipipe(benchmark::State& state) {
  const std::vector<Tokens> lengths = batch(0, state.range(0));
  const Job job = job_of(state.range(1), state.range(2));
  ChunkPlanOptions options = infinipipe_options();
  options.slices = static_cast<std::size_t>(state.range(3));
  options.schedule.groups = options.slices == 0;
  Plan plan;
  for (auto _ : state) benchmark::DoNotOptimize(plan = plan_chunks("infinipipe", lengths, job, options));
  state.counters["step_s"] = plan.step.seconds;
  state.counters["chunks"] = static_cast<double>(plan.forward.packs.size());
}
BENCHMARK(plan_infinipipe)
    ->ArgNames({"context", "stages", "GB", "slices"})
    ->ArgsProduct({{65536, 196608}, {4, 8}, {43, 85}, {16, 32, 64, 0}})
    ->Unit(benchmark::kMillisecond);

/// Memory without the keys and values of recomputed layers.
struct KeysDropped {
  TransformerMemory memory;
  double keys = 0.0;  // bytes of a token and layer

  [[nodiscard]] double capacity_bytes() const { return memory.capacity_bytes(); }
  [[nodiscard]] double static_bytes(std::size_t s) const { return memory.static_bytes(s); }
  [[nodiscard]] double activation_bytes(std::size_t s, int recompute) const {
    return memory.activation_bytes(s, recompute) - recompute * keys;
  }
  [[nodiscard]] double kv_gradient_bytes(std::size_t s) const { return memory.kv_gradient_bytes(s); }
  [[nodiscard]] double workspace_bytes(std::size_t s, Pass pass, Tokens tokens, int recompute) const {
    return memory.workspace_bytes(s, pass, tokens, recompute);
  }
};

void dropped_keys(benchmark::State& state) {
  const std::vector<Tokens> lengths = batch(0, state.range(0));
  const Job job = job_of(state.range(1), state.range(2));
  const KeysDropped dropped{TransformerMemory(job), kv_bytes_per_token(job.model, 1) / job.layout.cp};
  Plan kept, less;
  for (auto _ : state) {
    kept = plan_chunks("infinipipe", lengths, job, infinipipe_options());
    less = plan_chunks("infinipipe", lengths, job, CalibratedCost(job), dropped, assumed_attention(job),
                       infinipipe_options());
  }
  state.counters["step_s"] = kept.step.seconds;
  state.counters["dropped_step_s"] = less.step.seconds;
}
BENCHMARK(dropped_keys)
    ->ArgNames({"context", "stages", "GB"})
    ->ArgsProduct({{65536, 131072}, {4}, {43, 60, 85}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

/// Chunks of equal time of a batch, about 64.
Chunks about_64_chunks(std::span<const Tokens> lengths, const SlicePrices& prices) {
  std::vector<SampleId> samples(lengths.size());
  std::iota(samples.begin(), samples.end(), SampleId{0});
  Chunks best;
  for (std::size_t slices = 2; slices <= 64; ++slices) {
    Chunks chunks = balanced_chunks(lengths, samples, prices, slices);
    const auto off = [](const Chunks& c) { return std::abs(static_cast<double>(c.packs.size()) - 64.0); };
    if (best.packs.size() == 0 || off(chunks) < off(best)) best = std::move(chunks);
  }
  return best;
}

/// The programs of one batch on devices of different memory.
void collect(std::span<const Tokens> lengths, std::vector<MilpModel>& models) {
  constexpr std::int64_t stages = 8;
  for (const std::int64_t gigabytes : {25, 30, 35, 43, 60}) {
    const Job job = job_of(stages, gigabytes);
    const auto look = [&](GroupPrices& prices, const Memory& memory) {
      const Chunks chunks = about_64_chunks(lengths, SlicePrices(prices.alone(), Pass::backward));
      const Ragged<PackId> sequences = chunk_sequences(chunks.packs, lengths);
      std::vector<std::uint32_t> order(sequences.size());
      std::iota(order.begin(), order.end(), std::uint32_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](auto a, auto b) { return sequences[a].size() < sequences[b].size(); });
      detail::ChunkPasses passes = detail::chunk_passes(chunks.packs, sequences, order);
      Schedule packs;
      packs.pipelines = 1;
      packs.forward = in_rows(std::move(passes.forward));
      packs.backward = in_rows(std::move(passes.backward));
      Scheduler scheduler(lengths, prices, memory);
      const auto keep = [&](const MilpModel& model, const MilpOptions& options) {
        if (model.rows() > 0) models.push_back(model);
        return CoveringSolver{}(model, options);
      };
      for (const PassOrder each : {PassOrder::packflow, PassOrder::steady, PassOrder::gpipe})
        (void)scheduler.checkpoints(packs, {.order = each}, keep, {.time_limit_seconds = 0.0});
      return Plan{};
    };
    (void)detail::plan_with_models(lengths, job, CalibratedCost(job), TransformerMemory(job),
                                   assumed_attention(job), look);
  }
}

void checkpointing_programs(benchmark::State& state) {
  std::vector<MilpModel> models;
  for (std::size_t number = 0; number < 10; ++number) {
    for (const Tokens context : {65536, 131072, 196608}) collect(batch(number, context), models);
  }
  CoveringOptions options = quick_covering();
  if (state.range(0) > 1) options = {.solver = {.relative_gap = 0.01}, .node_limit = state.range(0)};
  std::vector<double> milliseconds, gaps;
  for (auto _ : state) {
    for (const MilpModel& model : models) {
      const std::clock_t begin = std::clock();  // of the processor, whatever else runs
      const MilpResult answer = solve_covering(model, options);
      milliseconds.push_back(1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
      gaps.push_back(100.0 * answer.gap);
    }
  }
  state.counters["programs"] = static_cast<double>(models.size());
  const auto within = std::count_if(gaps.begin(), gaps.end(), [](double gap) { return gap <= 1.0; });
  state.counters["within_1_%"] = static_cast<double>(within);
  state.counters["gap_mean_%"] =
      std::accumulate(gaps.begin(), gaps.end(), 0.0) / static_cast<double>(gaps.size());
  state.counters["gap_worst_%"] = *std::max_element(gaps.begin(), gaps.end());
  std::sort(milliseconds.begin(), milliseconds.end());
  state.counters["ms_median"] = milliseconds[milliseconds.size() / 2];
  state.counters["ms_90_%"] = milliseconds[milliseconds.size() * 9 / 10];
  state.counters["ms_worst"] = milliseconds.back();
}
BENCHMARK(checkpointing_programs)->Arg(1)->Arg(1000)->Iterations(1)->Unit(benchmark::kMillisecond);

/// Seconds of all tasks of a plan on a device, priced anew with nothing recomputed. @param cost, memory of its pipelines.
double task_seconds(const Plan& plan, const Job& job, const CalibratedOptions& cost,
                    const MemoryOptions& memory) {
  Schedule packs;
  packs.pipelines = plan.pipelines.size();
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const PassPlan& own = plan.of(pass);
    Ragged<std::uint32_t> members;
    for (std::size_t k = 0; k < own.packs.size(); ++k) {
      for (const PipelineId p : own.pipelines[k]) members.add(p);
      members.close();
    }
    (pass == Pass::forward ? packs.forward : packs.backward) =
        in_rows(Packs{own.packs}, std::move(members), packs.pipelines);
  }
  double sum = 0.0;
  const auto price = [&](GroupPrices& prices, const Memory& own) {
    Scheduler scheduler(plan.tokens, prices, own);
    scheduler.price(packs);
    const std::size_t stages = own.stages();
    for (const auto& [rows, times] : {std::pair{&packs.forward, &packs.forward_times},
                                      std::pair{&packs.backward, &packs.backward_times}}) {
      for (std::size_t i = 0; i < times->seconds.size(); ++i)
        sum += times->seconds[i] * static_cast<double>(rows->members[i / stages].size());
    }
    return Plan{};
  };
  (void)detail::plan_with_models(plan.tokens, job, CalibratedCost(job, cost), TransformerMemory(job, memory),
                                 assumed_attention(job), price);
  return sum / static_cast<double>(plan.pipelines.size() * plan.pipelines[0].stages());
}

/// The same as planned, with what is recomputed.
double planned_seconds(const Plan& plan) {
  double sum = 0.0;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const PassPlan& own = plan.of(pass);
    for (std::size_t k = 0; k < own.packs.size(); ++k) {
      const auto row = own.seconds[k];
      sum += std::accumulate(row.begin(), row.end(), 0.0) * static_cast<double>(own.pipelines[k].size());
    }
  }
  return sum / static_cast<double>(plan.pipelines.size() * plan.pipelines[0].stages());
}

template <class Planner>
void breakdown(benchmark::State& state, Layout layout, const UlyssesOptions& options,
               const Planner& planner) {
  Job job = job_of(4, 85);
  job.model.heads = job.model.kv_heads = 32;  // which 16 and 32 ranks can divide
  job.model.head_dim = 160;
  job.device = device_preset("a800");
  job.device.inter_node.bandwidth = 5.625e9;
  job.layout = layout;
  Plan plan;
  for (auto _ : state) plan = planner(batch(0, state.range(0)), job);
  Job free = job;
  free.device.intra_node = free.device.inter_node = {.bandwidth = 1e29, .latency = 0.0};
  const double priced = task_seconds(plan, job, options.cost, options.memory),
               computed = task_seconds(plan, free, options.cost, options.memory),
               planned = planned_seconds(plan);
  state.counters["step_s"] = plan.step.seconds;
  state.counters["compute_s"] = computed;
  state.counters["recompute_s"] = std::round(1e6 * (planned - priced)) / 1e6;
  state.counters["communicate_s"] = priced - computed;
  state.counters["wait_s"] = plan.step.seconds - planned;
  state.counters["bubble_%"] = 100.0 * (plan.step.seconds - planned) / plan.step.seconds;
}

Plan chunks(const std::vector<Tokens>& lengths, const Job& job, const char* name,
            const ChunkPlanOptions& options) {
  return plan_chunks(name, lengths, job, options);
}
void contexts(benchmark::internal::Benchmark* b) {
  b->Arg(49152)->Arg(98304)->Arg(196608)->Iterations(1)->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(breakdown, deepspeed_cp16, Layout{.dp = 2, .tp = 1, .cp = 16, .pp = 1}, ulysses_options(),
                  [](const auto& lengths, const Job& job) { return plan_deepspeed(lengths, job); })
    -> Apply(contexts);
BENCHMARK_CAPTURE(breakdown, flexsp, Layout{.dp = 32, .tp = 1, .cp = 1, .pp = 1}, ulysses_options(),
                  [](const auto& lengths, const Job& job) { return plan_flexsp(lengths, job); })
    -> Apply(contexts);
BENCHMARK_CAPTURE(breakdown, seq1f1b, Layout{.dp = 1, .tp = 1, .cp = 8, .pp = 4}, UlyssesOptions{},
                  [](const auto& lengths, const Job& job) {
                    return chunks(lengths, job, "seq1f1b", seq1f1b_options());
                  }) -> Apply(contexts);
BENCHMARK_CAPTURE(breakdown, infinipipe, Layout{.dp = 1, .tp = 1, .cp = 8, .pp = 4}, UlyssesOptions{},
                  [](const auto& lengths, const Job& job) {
                    return chunks(lengths, job, "infinipipe", infinipipe_options());
                  }) -> Apply(contexts);

}  // namespace
