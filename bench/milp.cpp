// Mixed-integer programs: how long models take to build and write, and how well solvers and the library's own
// search solve WLB-LLM's Eq. 1 in the same time. Arguments of a packing: documents, micro-batches, and the
// kind of instance: 0 heavy tails, 1 light tails, 2 a tight cap, 3 light tails and a tight cap.
// Arguments of a covering program, InfiniPipe's checkpointing of 8 stages: chunks, and layers of the model.
// SLIMPACK_MILP_SECONDS is the time limit of a solve, 2 if it is not set.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "bench/solvers.hpp"
#include "slimpack/milp/covering.hpp"
#include "slimpack/milp/write.hpp"
#include "slimpack/partition/packing_milp.hpp"
#include "tests/milp/checkpointing_instances.hpp"

namespace {

using namespace slimpack;

struct Documents {
  std::vector<std::int64_t> lengths;
  std::vector<double> work;  // of their attention
  std::size_t bins;
  std::int64_t capacity;
  [[nodiscard]] SizeLimit limit() const { return {lengths, capacity}; }
};

Documents documents(const benchmark::State& state) {
  Documents made{.lengths = {}, .work = {}, .bins = static_cast<std::size_t>(state.range(1)), .capacity = 0};
  const std::int64_t kind = state.range(2);
  std::mt19937_64 random(1);
  std::int64_t sum = 0, longest = 0;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    const double drawn = kind % 2 == 0
                             ? std::lognormal_distribution<double>(7.0, kind == 0 ? 2.0 : 1.0)(random)
                             : std::uniform_real_distribution<double>(2000.0, 4000.0)(random);
    const auto length = static_cast<std::int64_t>(std::clamp(drawn, 32.0, 131072.0));
    made.lengths.push_back(length);
    made.work.push_back(static_cast<double>(length) * static_cast<double>(length));
    sum += length;
    longest = std::max(longest, length);
  }
  const double mean = static_cast<double>(sum) / static_cast<double>(made.bins);
  made.capacity = std::max(longest, static_cast<std::int64_t>(std::ceil((kind < 2 ? 1.5 : 1.005) * mean)));
  return made;
}

/// The quality of a packing: its makespan above the mean or heaviest document, and above what is proven.
void report(benchmark::State& state, const Documents& instance, double makespan, double bound, bool optimal) {
  const double trivial = makespan_lower_bound(instance.work, instance.bins);
  state.counters["above_bound_%"] = 100.0 * (makespan / trivial - 1.0);
  state.counters["gap_%"] = 100.0 * (1.0 - bound / makespan);
  state.counters["optimal"] = optimal ? 1.0 : 0.0;
}

// ---- Building and writing ----

void packing_model(benchmark::State& state) {
  const Documents instance = documents(state);
  std::size_t terms = 0;
  for (auto _ : state) {
    const PackingModel packing(instance.work, instance.bins, instance.limit());
    terms = packing.model().terms();
    benchmark::DoNotOptimize(packing.model().objective().data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(terms));
  state.counters["terms"] = static_cast<double>(terms);
}
BENCHMARK(packing_model)
    ->Args({64, 8, 0})
    ->Args({512, 16, 0})
    ->Args({4096, 64, 0})
    ->Unit(benchmark::kMillisecond);

template <class Write>
void write(benchmark::State& state, Write&& to_text) {
  const Documents instance = documents(state);
  const PackingModel packing(instance.work, instance.bins, instance.limit());
  std::size_t bytes = 0;
  for (auto _ : state) {
    const std::string text = to_text(packing.model());
    bytes = text.size();
    benchmark::DoNotOptimize(text.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}
void write_lp(benchmark::State& state) { write(state, to_lp); }
void write_mps(benchmark::State& state) { write(state, to_mps); }
BENCHMARK(write_lp)->Args({512, 16, 0})->Unit(benchmark::kMillisecond);
BENCHMARK(write_mps)->Args({512, 16, 0})->Unit(benchmark::kMillisecond);

// ---- Eq. 1 ----

void instances(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t kind : {0, 1, 2, 3}) {
    bench->Args({16, 4, kind})->Args({32, 4, kind})->Args({64, 8, kind});
  }
  bench->Unit(benchmark::kMillisecond)->Iterations(1);
}

/// The library's own branch and bound, with as many steps as for a solver's starting solution.
void own_search(benchmark::State& state) {
  const Documents instance = documents(state);
  ExactAssignment<double> answer;
  for (auto _ : state)
    answer =
        exact_assignment(instance.work, instance.bins, {.max_steps = 1000000, .limit = instance.limit()});
  if (answer.assignment.load.empty()) return state.SkipWithError("no assignment found");
  const double bound = makespan_lower_bound(instance.work, instance.bins, instance.limit());
  report(state, instance, answer.assignment.makespan(), std::max(bound, answer.bound),
         answer.status == SolveStatus::optimal);
}
BENCHMARK(own_search)->Apply(instances);

template <class Solve>
void pack(benchmark::State& state, Solve&& solve, std::uint64_t warm_start_steps) {
  const Documents instance = documents(state);
  PackingMilpResult answer;
  for (auto _ : state) {
    answer = solve_packing(instance.work, instance.bins, solve,
                           {.limit = instance.limit(),
                            .solver = {.time_limit_seconds = bench::seconds_allowed(2.0)},
                            .warm_start_steps = warm_start_steps});
  }
  state.counters["nodes"] = static_cast<double>(answer.nodes);
  if (answer.assignment.load.empty()) return state.SkipWithError("no solution within the time limit");
  report(state, instance, answer.assignment.makespan(), answer.bound, answer.status == SolveStatus::optimal);
}

/// The formulation as printed in the paper: without breaking symmetry, and without a bound.
template <class Solve>
void pack_as_printed(benchmark::State& state, Solve&& solve) {
  const Documents instance = documents(state);
  const double scale = makespan_lower_bound(instance.work, instance.bins);
  MilpModel model;
  const VariableId makespan = model.add_variable("makespan", 0.0, no_bound);
  std::vector<std::vector<Term>> work(instance.bins, {{makespan, -1.0}}), size(instance.bins);
  for (std::size_t i = 0; i < instance.work.size(); ++i) {
    std::vector<Term> once;
    for (std::size_t j = 0; j < instance.bins; ++j) {
      const VariableId x = model.add_binary();
      once.push_back({x, 1.0});
      if (instance.work[i] >= 1e-9 * scale) work[j].push_back({x, instance.work[i] / scale});
      size[j].push_back({x, static_cast<double>(instance.lengths[i])});
    }
    model.add_row("", 1.0, 1.0, once);
  }
  for (std::size_t j = 0; j < instance.bins; ++j) {
    model.add_row("", -no_bound, 0.0, work[j]);
    model.add_row("", -no_bound, static_cast<double>(instance.capacity), size[j]);
  }
  model.set_objective(Direction::minimise, {{makespan, 1.0}});
  MilpResult answer;
  for (auto _ : state) answer = solve(model, MilpOptions{.time_limit_seconds = bench::seconds_allowed(2.0)});
  state.counters["nodes"] = static_cast<double>(answer.nodes);
  if (!answer.has_solution()) return state.SkipWithError("no solution within the time limit");
  report(state, instance, answer.objective * scale, answer.bound * scale,
         answer.status == SolveStatus::optimal);
}

const bool packings_registered = [] {
  bench::for_each_solver([](const std::string& name, auto solve) {
    const auto add = [&](const char* what, const auto& run) {
      benchmark::RegisterBenchmark((name + what).c_str(), run)->Apply(instances);
    };
    add("_as_printed", [solve](benchmark::State& state) { pack_as_printed(state, solve); });
    add("_cold", [solve](benchmark::State& state) { pack(state, solve, 0); });
    add("_warm", [solve](benchmark::State& state) { pack(state, solve, 1000000); });
  });
  return true;
}();

// ---- Covering programs ----

void chunk_counts(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t chunks : {16, 64, 256})
    for (const std::int64_t layers : {32, 80}) bench->Args({chunks, layers});
  bench->Unit(benchmark::kMillisecond);
}

template <class Solve>
void checkpoint(benchmark::State& state, Solve&& solve) {
  const MilpModel model = test::checkpointing_program(1, {.chunks = static_cast<std::size_t>(state.range(0)),
                                                          .stages = 8,
                                                          .layers = static_cast<std::size_t>(state.range(1)),
                                                          .prefill = 2,
                                                          .share = 0.5});
  MilpResult answer;
  for (auto _ : state) answer = solve(model);
  if (!answer.has_solution()) return state.SkipWithError("no solution within the time limit");
  state.counters["objective"] = answer.objective;
  state.counters["gap_%"] = 100.0 * answer.gap;
  state.counters["nodes"] = static_cast<double>(answer.nodes);
}

void covering_quick(benchmark::State& state) {
  checkpoint(state, [](const MilpModel& model) { return solve_covering(model, quick_covering()); });
}
void covering_1000_nodes(benchmark::State& state) {
  checkpoint(state, [](const MilpModel& model) { return solve_covering(model, {.node_limit = 1000}); });
}
BENCHMARK(covering_quick)->Apply(chunk_counts);
BENCHMARK(covering_1000_nodes)->Apply(chunk_counts)->Iterations(1);

/// Median and worst of 100 programs of 64 chunks on 8 stages, of 32 or 80 layers, that need 10 to 95 % of what
/// checkpointing can save. Argument: nodes; 1 for the quick preset.
void covering_hundred(benchmark::State& state) {
  CoveringOptions options = quick_covering();
  if (state.range(0) > 1) options = {.solver = {.relative_gap = 0.01}, .node_limit = state.range(0)};
  std::vector<double> milliseconds, gaps;
  for (auto _ : state) {
    for (unsigned seed = 1; seed <= 100; ++seed) {
      std::mt19937 random(seed);
      test::CheckpointingShape shape{.chunks = 64, .stages = 8, .layers = random() % 2 == 0 ? 80U : 32U};
      shape.prefill = 1 + random() % 4;
      shape.share = 0.1 + 0.85 * static_cast<double>(random() % 1000) / 1000.0;
      const MilpResult answer = solve_covering(test::checkpointing_program(seed, shape), options);
      milliseconds.push_back(1e3 * answer.seconds);
      gaps.push_back(100.0 * answer.gap);
    }
  }
  const auto within = std::count_if(gaps.begin(), gaps.end(), [](double gap) { return gap <= 1.0; });
  std::sort(milliseconds.begin(), milliseconds.end());
  std::sort(gaps.begin(), gaps.end());
  state.counters["ms_median"] = milliseconds[50];
  state.counters["ms_worst"] = milliseconds.back();
  state.counters["gap_median_%"] = gaps[50];
  state.counters["gap_worst_%"] = gaps.back();
  state.counters["within_1_%"] = static_cast<double>(within);
}
BENCHMARK(covering_hundred)->Arg(1)->Arg(100)->Arg(1000)->Unit(benchmark::kMillisecond)->Iterations(1);

const bool coverings_registered = [] {
  bench::for_each_solver([](const std::string& name, auto solve) {
    benchmark::RegisterBenchmark(
        ("covering_" + name).c_str(),
        [solve](benchmark::State& state) {
          checkpoint(state, [&](const MilpModel& model) {
            return solve(model, MilpOptions{.time_limit_seconds = bench::seconds_allowed(2.0)});
          });
        })
        ->Apply(chunk_counts)
        ->Iterations(1);
  });
  return true;
}();

}  // namespace
