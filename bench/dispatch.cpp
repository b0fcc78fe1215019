// Samples over pipelines of different kinds, as Hydraulis does it in every iteration: Algorithm 1, the library's own search,
// the bound, and packing inside the pipelines. Arguments: pipelines, samples. Lengths come from examples/data/github.train.txt,
// cut at 32K tokens; SLIMPACK_DISPATCH_LENGTHS names another file.
//
// Against solvers (dispatch_optimum): makespans of Algorithm 1 with 100 trials and of the library's own search above what a
// solver proves for Eq. 3 in SLIMPACK_MILP_SECONDS (60 if it is not set), which starts from the search's answer. Arguments:
// samples, pipelines, whether tails are light, whether kinds hold few samples, and seeds, from 1 on. Counters, in % of the least
// that is proven possible: the worst of all seeds; proven: seeds of which the optimum is.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/lengths.hpp"
#include "bench/solvers.hpp"
#include "slimpack/partition/dispatch_greedy.hpp"
#include "slimpack/partition/dispatch_milp.hpp"
#include "slimpack/partition/dispatch_search.hpp"
#include "tests/partition/dispatch_instances.hpp"

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

// ---- Eq. 3 by a solver ----

/// Worst excess of makespans above what is proven, of instances whose optimum is proven and of the others.
struct Excess {
  double proven = 0.0, open = 0.0;
  void add(double makespan, const DispatchMilpResult& solved) {
    double& worst = solved.status == SolveStatus::optimal ? proven : open;
    worst = std::max(worst, 100.0 * (makespan / solved.bound - 1.0));
  }
};

template <class Solve>
void optimum(benchmark::State& state, Solve&& solve) {
  const MilpOptions options{.time_limit_seconds = bench::seconds_allowed(60.0)};
  Excess greedy, own, solver;
  int proven = 0, worse = 0;
  for (auto _ : state) {
    for (std::int64_t seed = 1; seed <= state.range(4); ++seed) {
      const auto in = test::hard_dispatch(
          static_cast<unsigned>(seed), static_cast<std::size_t>(state.range(0)),
          static_cast<std::size_t>(state.range(1)), state.range(2) != 0, state.range(3) != 0);
      const DispatchMilpResult solved = solve_dispatch(in.problem(), solve, {.solver = options});
      const double trials = greedy_dispatch(in.problem()).makespan(),
                   ours = search_dispatch(in.problem()).dispatch.makespan();
      proven += solved.status == SolveStatus::optimal ? 1 : 0;
      worse += ours > trials ? 1 : 0;
      greedy.add(trials, solved);
      own.add(ours, solved);
      solver.add(solved.dispatch.makespan(), solved);
    }
  }
  state.counters["proven"] = proven;
  state.counters["worse_than_greedy"] = worse;
  state.counters["greedy_%"] = greedy.proven;
  state.counters["own_%"] = own.proven;
  state.counters["open_greedy_%"] = greedy.open;
  state.counters["open_own_%"] = own.open;
  state.counters["open_solver_%"] = solver.open;
}

[[maybe_unused]] void hard_instances(benchmark::internal::Benchmark* b) {
  b->ArgNames({"samples", "pipelines", "light", "tight", "seeds"})->Unit(benchmark::kSecond)->Iterations(1);
  for (const std::int64_t light : {0, 1}) {
    for (const std::int64_t tight : {0, 1})
      b->Args({12, 4, light, tight, 20})->Args({20, 5, light, tight, 10})->Args({40, 8, light, tight, 2});
  }
}

const bool registered = [] {
  bench::for_each_solver([](const std::string& name, auto solve) {
    benchmark::RegisterBenchmark(("dispatch_optimum_" + name).c_str(), [solve](benchmark::State& state) {
      optimum(state, solve);
    })->Apply(hard_instances);
  });
  return true;
}();

}  // namespace
