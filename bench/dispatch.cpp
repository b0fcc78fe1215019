// Samples over pipelines of different kinds, as Hydraulis does it in every iteration: Algorithm 1, the library's own search,
// the bound, and packing inside the pipelines. Arguments: pipelines, samples. Lengths come from examples/data/github.train.txt,
// cut at 32K tokens; SLIMPACK_DISPATCH_LENGTHS names another file.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "bench/lengths.hpp"
#include "slimpack/partition/dispatch_greedy.hpp"
#include "slimpack/partition/dispatch_search.hpp"

namespace {

using namespace slimpack;

/// A strategy of five schemes, as the paper proposes them: the longer the samples, the more devices a pipeline has.
struct Scheme {
  Tokens max_tokens;
  double tp;
  std::size_t stages;
  double share;  // of the pipelines
};
constexpr Scheme schemes[] = {
    {32768, 8, 2, 0.02}, {16384, 4, 2, 0.06}, {8192, 4, 1, 0.12}, {4096, 2, 2, 0.3}, {2048, 1, 4, 0.5}};

struct Iteration {
  std::vector<Tokens> lengths;
  std::vector<PipelineKind> kinds;
  std::vector<double> seconds;
  [[nodiscard]] DispatchProblem problem() const { return {lengths, kinds, seconds}; }
};

/// T(l, P) of one stage, quadratic as in appendix B.2; tensor parallelism costs a tenth more each time it doubles.
double stage_seconds(const Scheme& scheme, Tokens length) {
  const double l = static_cast<double>(length);
  const double devices = scheme.tp * static_cast<double>(scheme.stages);
  return 1e-3 + (4e-5 * l + 1e-9 * l * l) * (1.0 + 0.1 * std::log2(scheme.tp)) / devices;
}

Iteration iteration(const benchmark::State& state) {
  Iteration made;
  made.lengths = bench::lengths(static_cast<std::size_t>(state.range(1)), 32768, "SLIMPACK_DISPATCH_LENGTHS",
                                "examples/data/github.train.txt");
  for (const Scheme& scheme : schemes) {
    const double count = std::round(scheme.share * static_cast<double>(state.range(0)));
    made.kinds.push_back(
        {scheme.max_tokens, scheme.stages, std::max<std::size_t>(1, static_cast<std::size_t>(count))});
  }
  made.seconds = dispatch_seconds(made.lengths, made.kinds, [](std::size_t kind, Tokens length) {
    return stage_seconds(schemes[kind], length);
  });
  return made;
}

void dispatch_greedy(benchmark::State& state) {
  const Iteration made = iteration(state);
  double makespan = 0.0;
  for (auto _ : state) makespan = greedy_dispatch(made.problem()).makespan();
  state.counters["over_bound"] = makespan / dispatch_lower_bound(made.problem()).seconds;
}
void dispatch_bound(benchmark::State& state) {
  const Iteration made = iteration(state);
  for (auto _ : state) benchmark::DoNotOptimize(dispatch_lower_bound(made.problem()).seconds);
}
void dispatch_search(benchmark::State& state) {
  const Iteration made = iteration(state);
  DispatchResult result;
  for (auto _ : state) result = search_dispatch(made.problem());
  state.counters["over_bound"] = 1.0 + result.gap();
}

/// About 64, 1024 and 16,384 devices.
void iterations(benchmark::internal::Benchmark* b) {
  b->Args({10, 400})->Args({220, 3400})->Args({3500, 50000})->Unit(benchmark::kMillisecond);
}
BENCHMARK(dispatch_greedy)->Apply(iterations);
BENCHMARK(dispatch_bound)->Apply(iterations);
BENCHMARK(dispatch_search)->Apply(iterations);

}  // namespace
