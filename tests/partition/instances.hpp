#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace test {

/// Weights of one of eight kinds, by seed: heavy and light tails, few different ones, all equal, zeros, one
/// giant.
template <class W>
std::vector<W> random_weights(unsigned seed, std::size_t count) {
  std::mt19937_64 random(seed);
  const auto draw = [&]() -> double {
    switch (seed % 8) {
      case 0:
        return 7.0;
      case 1:
        return static_cast<double>(random() % 4);
      case 2:
        return random() % 3 == 0 ? 0.0 : static_cast<double>(random() % 100);
      case 3:
        return std::lognormal_distribution<double>(8.0, 1.5)(random);
      case 4:
        return std::lognormal_distribution<double>(6.0, 3.0)(random);
      case 5:
        return std::uniform_real_distribution<double>(500.0, 1000.0)(random);
      case 6:
        return static_cast<double>(1 + random() % 20);
      default:
        return std::uniform_real_distribution<double>(0.0, 1e6)(random);
    }
  };
  std::vector<W> weights(count);
  for (W& w : weights) w = static_cast<W>(std::is_integral_v<W> ? std::floor(draw()) : draw());
  if (seed % 16 == 6 && count > 0) weights[random() % count] = W{100000};
  return weights;
}

inline std::string print(const auto& values) {
  std::string text;
  for (const auto& v : values) text += std::to_string(v) + " ";
  return text;
}

/// Loads by their definition.
template <class W>
std::vector<W> loads_of(const std::vector<W>& weights, const std::vector<std::uint32_t>& bin,
                        std::size_t bins) {
  std::vector<W> load(bins, W{});
  for (std::size_t i = 0; i < weights.size(); ++i) load.at(bin.at(i)) += weights[i];
  return load;
}

/// Least makespan over all assignments that keep the sizes within the capacity, or -1 if there is none.
template <class W>
struct Exhaustive {
  const std::vector<W>& weights;
  std::size_t bins;
  std::vector<std::int64_t> sizes = {};
  std::int64_t capacity = 0;
  std::vector<W> load = std::vector<W>(bins, W{});
  std::vector<std::int64_t> filled = std::vector<std::int64_t>(bins, 0);

  W solve(std::size_t item = 0, std::size_t used = 0) {
    if (item == weights.size()) return *std::max_element(load.begin(), load.end());
    W best = W{-1};
    for (std::size_t b = 0; b < std::min(used + 1, bins); ++b) {
      const std::int64_t size = sizes.empty() ? 0 : sizes[item];
      if (filled[b] + size > capacity) continue;
      const W before = load[b];
      load[b] += weights[item];
      filled[b] += size;
      const W found = solve(item + 1, std::max(used, b + 1));
      if (found >= W{} && (best < W{} || found < best)) best = found;
      load[b] = before;
      filled[b] -= size;
    }
    return best;
  }
};

/// Fewest bins over all packings.
inline std::size_t fewest_bins(const std::vector<std::int64_t>& weights, std::int64_t capacity) {
  if (weights.empty()) return 0;
  for (std::size_t bins = 1;; ++bins) {
    if (Exhaustive<std::int64_t>{weights, bins, weights, capacity}.solve() >= 0) return bins;
  }
}

}  // namespace test
