// Micro-batches of sorted samples by dynamic programming, next to DynaPipe's own way, written again here from its description: the
// program runs once for each possible time of a micro-batch that is not within a step of the one before. SLIMPACK_DOCUMENTS names a
// file of lengths. Arguments: documents, stages.
#include "slimpack/partition/ordered_parts.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "bench/lengths.hpp"

namespace {

using namespace slimpack;

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Packed micro-batches: 24576 a token, and its square, with a constant; at most a number of tokens.
struct Work {
  std::vector<double> seconds{0.0}, tokens{0.0};

  explicit Work(std::size_t documents) {
    std::vector<Tokens> lengths = bench::lengths(documents, 262144, "SLIMPACK_DOCUMENTS");
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    for (const Tokens length : lengths) {
      const auto s = static_cast<double>(length);
      seconds.push_back(seconds.back() + 24576.0 * s + s * s);
      tokens.push_back(tokens.back() + s);
    }
  }
  [[nodiscard]] std::size_t documents() const { return seconds.size() - 1; }
  double operator()(std::size_t begin, std::size_t end) const {
    const bool fits = end - begin == 1 || tokens[end] - tokens[begin] <= 262144.0;
    return fits ? 1e7 + seconds[end] - seconds[begin] : infinite;
  }
};

/// Least objective, a limit of a micro-batch's time after another. @param step between limits, as a share of the longest.
double all_limits(const Work& work, const OrderedPartsOptions& weights, double step) {
  const std::size_t n = work.documents();
  std::vector<double> limits;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j <= n && work(i, j) < infinite; ++j) limits.push_back(work(i, j));
  }
  std::sort(limits.begin(), limits.end());
  double best = infinite, before = -infinite;
  std::vector<double> least(n + 1, 0.0);
  for (const double limit : limits) {
    if (limit - before <= step * limits.back()) continue;
    before = limit;
    for (std::size_t j = 1; j <= n; ++j) {
      least[j] = infinite;
      for (std::size_t i = 0; i < j; ++i) {
        if (work(i, j) <= limit) least[j] = std::min(least[j], least[i] + work(i, j));
      }
    }
    best = std::min(best, weights.most_weight * limit + weights.sum_weight * least[n]);
  }
  return best;
}

OrderedPartsOptions weights_of(benchmark::State& state) {
  return {.most_weight = static_cast<double>(state.range(1) - 1), .sum_weight = 1.0};
}

void ordered_by_halving(benchmark::State& state) {
  const Work work(static_cast<std::size_t>(state.range(0)));
  OrderedParts parts;
  for (auto _ : state) parts = ordered_parts(work.documents(), work, weights_of(state));
  state.counters["objective"] = parts.objective;
  state.counters["parts"] = static_cast<double>(parts.ends.size());
}

void ordered_dynapipe(benchmark::State& state) {
  const Work work(static_cast<std::size_t>(state.range(0)));
  double objective = 0.0;
  for (auto _ : state) objective = all_limits(work, weights_of(state), 1e-3);
  state.counters["objective"] = objective;
}

BENCHMARK(ordered_by_halving)
    ->ArgNames({"documents", "stages"})
    ->Unit(benchmark::kMillisecond)
    ->Args({128, 8})
    ->Args({512, 8})
    ->Args({2048, 8});
BENCHMARK(ordered_dynapipe)
    ->ArgNames({"documents", "stages"})
    ->Unit(benchmark::kMillisecond)
    ->Args({128, 8})
    ->Args({512, 8});

}  // namespace
