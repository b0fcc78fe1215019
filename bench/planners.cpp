// Planning time and what comes out: SlimPack, the Megatron baseline and dynamic context parallelism on llama-13b and H100,
// whole calls on one core (all candidates, simulation, memory, bound). Items are samples. Arguments: samples, dp, pp, tokens
// of context. Lengths: examples/data/github.train.txt, or the file that SLIMPACK_LENGTHS names; cut to the
// context, from the start again at the end. peak_rss_MiB is of the process so far: filter for one case.
//
// One iteration after another: wlb on llama-7b (tp 8, cp 2, pp 4), from a global batch to its plan (queues, packing,
// sharding, simulation, memory, bound). A batch fills as many sequences of the context as there are stages of all
// replicas; the file starts again at its end. Arguments: dp, tokens of context. Items are documents.
//
// Slices over 32 ranks: documents cut into 32 packs of equal cost, next to partitions of whole documents.
// Arguments: tile in tokens. Lengths: one per line in the files that SLIMPACK_LOGNORMAL and
// SLIMPACK_WIKIPEDIA name; without them log-normal, mu 8 and sigma 1.5. Times include pricing and sorting.

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/planners/bytescale.hpp"
#include "slimpack/planners/dynamic_cp.hpp"
#include "slimpack/planners/dynapipe.hpp"
#include "slimpack/planners/hotspa.hpp"
#include "slimpack/planners/hydraulis.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "slimpack/planners/wlb.hpp"
#include "slimpack/slicing/micropack.hpp"
#include "slimpack/stream/sequences.hpp"

#ifndef SLIMPACK_SOURCE_DIR
#define SLIMPACK_SOURCE_DIR "."  // run from the repository's root, then
#endif

namespace {

using slimpack::Pass;
using slimpack::Tokens;

std::vector<Tokens> read_lengths(const std::string& path) {
  std::ifstream file(path);
  std::vector<Tokens> lengths;
  for (Tokens length = 0; file >> length;) lengths.push_back(length);
  return lengths;
}

/// The file's lengths, as many as asked for; none if there is no such file.
std::vector<Tokens> first_lengths(std::size_t count, Tokens context) {
  const char* path = std::getenv("SLIMPACK_LENGTHS");
  const std::vector<Tokens> all =
      read_lengths(path != nullptr ? path : SLIMPACK_SOURCE_DIR "/examples/data/github.train.txt");
  std::vector<Tokens> lengths;
  for (std::size_t i = 0; i < count && !all.empty(); ++i)
    lengths.push_back(std::min(context, all[i % all.size()]));
  return lengths;
}

template <class Planner>
void plan(benchmark::State& state, Planner&& planner) {
  const std::vector<Tokens> lengths = first_lengths(static_cast<std::size_t>(state.range(0)), state.range(3));
  if (lengths.empty()) {
    state.SkipWithError("no lengths: SLIMPACK_LENGTHS should name a file of them");
    return;
  }
  const slimpack::Job job{.model = slimpack::transformer_preset("llama-13b"),
                          .device = slimpack::device_preset("h100"),
                          .layout = {.dp = static_cast<std::int32_t>(state.range(1)),
                                     .pp = static_cast<std::int32_t>(state.range(2))}};
  slimpack::Plan plan;
  for (auto _ : state) {
    plan = planner(lengths, job, state.range(3));
    benchmark::DoNotOptimize(plan);
  }
  const slimpack::PlanMetrics metrics = slimpack::plan_metrics(plan);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["step_s"] = plan.step.seconds;
  state.counters["gap"] = plan.step.gap();
  state.counters["packs"] = static_cast<double>(metrics.packs);
  state.counters["forward"] = metrics.max_over_mean_forward;
  state.counters["backward"] = metrics.max_over_mean_backward;
  state.counters["replicas"] = metrics.replica_imbalance;
  state.counters["peak_rss_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024.0;
}

void plan_slimpack(benchmark::State& state) {
  plan(state,
       [](const auto& lengths, const auto& job, Tokens) { return slimpack::plan_slimpack(lengths, job); });
}

void plan_slimpack_quickly(benchmark::State& state) {
  plan(state, [](const auto& lengths, const auto& job, Tokens) {
    slimpack::SlimPackOptions options;
    options.search.thorough = false;
    return slimpack::plan_slimpack(lengths, job, options);
  });
}

void plan_megatron(benchmark::State& state) {
  plan(state, [](const auto& lengths, const auto& job, Tokens context) {
    return slimpack::plan_megatron(lengths, job, {.context = context});
  });
}

void plan_dynamic_cp(benchmark::State& state) {
  plan(state,
       [](const auto& lengths, const auto& job, Tokens) { return slimpack::plan_dynamic_cp(lengths, job); });
}

void plan_bytescale(benchmark::State& state) {
  plan(state,
       [](const auto& lengths, const auto& job, Tokens) { return slimpack::plan_bytescale(lengths, job); });
}

void plan_dynapipe(benchmark::State& state) {
  plan(state,
       [](const auto& lengths, const auto& job, Tokens) { return slimpack::plan_dynapipe(lengths, job); });
}

void plan_hotspa(benchmark::State& state) {
  plan(state,
       [](const auto& lengths, const auto& job, Tokens) { return slimpack::plan_hotspa(lengths, job); });
}

void usual_batches(benchmark::internal::Benchmark* b) {
  b->ArgNames({"samples", "dp", "pp", "context"})->Unit(benchmark::kMillisecond);
  for (const std::int64_t samples : {512, 2048}) {
    for (const std::int64_t context : {65536, 131072, 262144}) b->Args({samples, 16, 8, context});
  }
}

void batches(benchmark::internal::Benchmark* b) {
  usual_batches(b);
  b->Args({65536, 512, 16, 131072});
  b->Args({65536, 512, 16, 262144});
}

BENCHMARK(plan_slimpack)->Apply(batches);
BENCHMARK(plan_slimpack_quickly)->Apply(batches);
BENCHMARK(plan_megatron)->Apply(batches);
BENCHMARK(plan_dynamic_cp)->Apply(usual_batches);  // 65536 take a minute
BENCHMARK(plan_bytescale)->Apply(usual_batches);
BENCHMARK(plan_hotspa)->Apply(usual_batches);
BENCHMARK(plan_dynapipe)->Apply(usual_batches);

/// Hydraulis for llama-32b on A800: what is done once for a data set, and for each batch. Arguments: devices, thousands of tokens.
struct HydraulisRun {
  slimpack::Job job{.model = slimpack::transformer_preset("llama-32b"),
                    .device = slimpack::device_preset("a800"),
                    .layout = {}};
  std::vector<Tokens> data = first_lengths(11000, 32768);
  slimpack::MakeKindModels make = slimpack::calibrated_kinds(job.model, job.device);

  [[nodiscard]] std::vector<slimpack::Strategy> propose(std::int64_t devices) const {
    slimpack::StrategySpace space;
    space.schemes.devices = devices;
    return slimpack::candidate_strategies(slimpack::LengthHistogram(data), job.model, job.device, make, space,
                                          true);
  }
};

void propose_hydraulis(benchmark::State& state) {
  const HydraulisRun run;
  std::size_t strategies = 0;
  for (auto _ : state) strategies = run.propose(state.range(0)).size();
  state.counters["strategies"] = static_cast<double>(strategies);
}

void choose_hydraulis(benchmark::State& state) {
  const HydraulisRun run;
  slimpack::HydraulisPlanner planner(run.job.model, run.job.device, run.propose(state.range(0)), run.make);
  std::mt19937_64 random(1);
  double step = 0.0;
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<Tokens> lengths;
    for (Tokens sum = 0; sum < 1000 * state.range(1); sum += lengths.back())
      lengths.push_back(run.data[random() % run.data.size()]);
    state.ResumeTiming();
    step += planner(lengths).step.seconds;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["step_s"] = step / static_cast<double>(state.iterations());
  state.counters["peak_rss_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024.0;
}

void hydraulis_sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"devices", "ktokens"})->Unit(benchmark::kMillisecond);
  b->Args({64, 200})->Args({1024, 3200})->Args({16384, 50000});
}

BENCHMARK(propose_hydraulis)->Apply(hydraulis_sizes);
BENCHMARK(choose_hydraulis)->Apply(hydraulis_sizes);

void plan_wlb(benchmark::State& state) {
  const auto dp = static_cast<std::int32_t>(state.range(0));
  const Tokens context = state.range(1);
  const std::vector<Tokens> lengths = first_lengths(20000, context);
  if (lengths.empty()) {
    state.SkipWithError("no lengths: SLIMPACK_LENGTHS should name a file of them");
    return;
  }
  const slimpack::Job job{.model = slimpack::transformer_preset("llama-7b"),
                          .device = slimpack::device_preset("h100"),
                          .layout = {.dp = dp, .tp = 8, .cp = 2, .pp = 4}};
  slimpack::WlbOptions options{.context = context};
  options.stream.thresholds = {context / 4, context / 2};
  auto planner = slimpack::wlb_planner(job, options);
  const auto begin = slimpack::global_batches(lengths, context, static_cast<std::size_t>(4 * dp));
  std::uint64_t id = 0;
  std::size_t next = 0;
  double step = 0.0;
  std::vector<slimpack::Document> documents;
  for (auto _ : state) {
    state.PauseTiming();
    documents.clear();
    for (std::size_t i = begin[next]; i < begin[next + 1]; ++i) documents.push_back({id++, lengths[i]});
    next = (next + 1) % (begin.size() - 1);
    state.ResumeTiming();
    const slimpack::Plan plan = planner.push(documents);
    step += plan.step.seconds;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(id));
  state.counters["documents"] =
      benchmark::Counter(static_cast<double>(id), benchmark::Counter::kAvgIterations);
  state.counters["step_s"] = benchmark::Counter(step, benchmark::Counter::kAvgIterations);
  state.counters["imbalance"] = planner.statistics().mean_imbalance();
  state.counters["delay"] = planner.statistics().mean_token_delay();
}

BENCHMARK(plan_wlb)
    ->ArgNames({"dp", "context"})
    ->Unit(benchmark::kMillisecond)
    ->Args({1, 65536})
    ->Args({1, 131072})
    ->Args({4, 131072})
    ->Args({16, 131072});

/// Documents of the kind that a file holds, 2048 of them.
std::vector<Tokens> documents(const char* variable) {
  constexpr std::size_t count = 2048;
  const char* path = std::getenv(variable);
  std::vector<Tokens> lengths = path != nullptr ? read_lengths(path) : std::vector<Tokens>();
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> length(8.0, 1.5);
  while (path == nullptr && lengths.size() < count) {
    lengths.push_back(static_cast<Tokens>(std::clamp(length(random), 32.0, 262144.0)));
  }
  if (lengths.size() > count) lengths.resize(count);
  return lengths;
}

/// Prices, sorts and cuts the documents; the quality is that of the same cost model.
void slice_over_ranks(benchmark::State& state, const char* variable) {
  constexpr std::size_t ranks = 32;
  const std::vector<Tokens> lengths = documents(variable);
  if (lengths.empty()) {
    state.SkipWithError((std::string(variable) + " names a file without lengths").c_str());
    return;
  }
  const slimpack::CalibratedCost cost({.model = slimpack::transformer_preset("llama-13b"),
                                       .device = slimpack::device_preset("h100"),
                                       .layout = {}});
  const slimpack::Prices all(cost);
  const slimpack::SlicePrices prices(all, Pass::forward);
  slimpack::MicroPackCutter cutter;
  std::vector<slimpack::StreamSample> samples;
  slimpack::Packs packs;
  for (auto _ : state) {
    samples.clear();
    packs.clear();
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      samples.push_back({static_cast<slimpack::SampleId>(i), lengths[i], prices(0, lengths[i])});
    }
    std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) {
      return a.length != b.length ? a.length > b.length : a.id < b.id;
    });
    cutter.cut({.samples = samples}, ranks, prices, {.tile = state.range(0)}, packs);
    benchmark::DoNotOptimize(packs);
  }
  double sum = 0.0, most = 0.0;
  for (std::size_t k = 0; k < packs.size(); ++k) {
    double seconds = 0.0;
    for (const slimpack::Slice& slice : packs[k]) {
      seconds += prices(slice.begin, slice.end);
    }
    sum += seconds;
    most = std::max(most, seconds);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(lengths.size()));
  state.counters["documents"] = static_cast<double>(lengths.size());
  state.counters["slices"] = static_cast<double>(packs.slices().size());
  state.counters["max_over_mean"] = most * static_cast<double>(ranks) / sum;
}

void tiles(benchmark::internal::Benchmark* b) {
  b->ArgName("tile")->Arg(1)->Arg(128)->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(slice_over_ranks, lognormal, "SLIMPACK_LOGNORMAL")->Apply(tiles);
BENCHMARK_CAPTURE(slice_over_ranks, wikipedia, "SLIMPACK_WIKIPEDIA")->Apply(tiles);

}  // namespace
