// Numbers into bins. SLIMPACK_WIKIPEDIA names a file of lengths; it is repeated up to a million.
#include <benchmark/benchmark.h>

#include <map>

#include "bench/lengths.hpp"
#include "slimpack/partition/greedy.hpp"
#include "slimpack/partition/packing.hpp"

namespace {

using namespace slimpack;

void lpt_into_bins(benchmark::State& state) {
  const auto lengths = bench::lengths(static_cast<std::size_t>(state.range(0)), 262144, "SLIMPACK_DOCUMENTS");
  std::vector<double> work;
  for (const Tokens s : lengths)
    work.push_back(24576.0 * static_cast<double>(s) + static_cast<double>(s) * static_cast<double>(s));
  LptSolver solver;
  const std::vector<double> empty(static_cast<std::size_t>(state.range(1)), 0.0);
  Assignment result;
  for (auto _ : state) {
    result = solver.solve(work, empty);
    benchmark::DoNotOptimize(result);
  }
  double sum = 0.0;
  for (const double w : work) sum += w;
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["max_over_mean"] = result.makespan() * static_cast<double>(empty.size()) / sum;
}
BENCHMARK(lpt_into_bins)
    ->Args({2048, 8})
    ->Args({2048, 32})
    ->Args({65536, 512})
    ->Unit(benchmark::kMicrosecond);

/// The usual way: open bins in a tree by the room that is left.
std::size_t multiset_best_fit(std::vector<std::int64_t> weights, std::int64_t capacity) {
  std::sort(weights.begin(), weights.end(), std::greater<>{});
  std::multimap<std::int64_t, std::uint32_t> open;
  std::uint32_t bins = 0;
  for (const std::int64_t weight : weights) {
    const auto fits = open.lower_bound(weight);
    if (fits == open.end()) {
      open.emplace(capacity - weight, bins++);
    } else {
      const auto [room, bin] = *fits;
      open.erase(fits);
      open.emplace(room - weight, bin);
    }
  }
  return bins;
}

template <class Pack>
void pack_lengths(benchmark::State& state, Pack&& pack) {
  const std::int64_t capacity = state.range(1);
  const auto lengths =
      bench::lengths(static_cast<std::size_t>(state.range(0)), capacity, "SLIMPACK_WIKIPEDIA");
  std::size_t bins = 0;
  for (auto _ : state) bins = pack(lengths, capacity);
  std::int64_t sum = 0;
  for (const Tokens s : lengths) sum += s;
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["bins"] = static_cast<double>(bins);
  state.counters["bound"] = static_cast<double>((sum + capacity - 1) / capacity);
}
void best_fit(benchmark::State& state) {
  pack_lengths(state, [](const auto& l, std::int64_t c) { return best_fit_decreasing(l, c).load.size(); });
}
void best_fit_in_a_tree(benchmark::State& state) {
  pack_lengths(state, [](const auto& l, std::int64_t c) { return multiset_best_fit(l, c); });
}
BENCHMARK(best_fit)->Args({2048, 262144})->Args({1000000, 32768})->Unit(benchmark::kMillisecond);
BENCHMARK(best_fit_in_a_tree)->Args({2048, 262144})->Args({1000000, 32768})->Unit(benchmark::kMillisecond);

}  // namespace
