#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/partition/local_search.hpp"

namespace slimpack {

/// Puts items into bins whose numbers of items differ by at most one, with loads as equal as swaps can make them. Starts
/// twice, with items dealt in turn and with items dealt back and forth, the heaviest first; never worse than dealt in turn.
/// @param bins positive. @returns the bin of each item. O(n log n) plus the local searches.
[[nodiscard]] inline std::vector<std::uint32_t> assign_equal_counts(std::span<const double> weights,
                                                                    std::size_t bins) {
  std::vector<std::uint32_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  const auto dealt = [&](bool back_and_forth) {
    Assignment out{std::vector<std::uint32_t>(weights.size()), std::vector<double>(bins, 0.0)};
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::size_t turn = i / bins, at = i % bins;
      const std::size_t bin = back_and_forth && turn % 2 != 0 ? bins - 1 - at : at;
      out.bin[order[i]] = static_cast<std::uint32_t>(bin);
      out.load[bin] += weights[order[i]];
    }
    improve_assignment(weights, out, {.keep_counts = true});
    return out;
  };
  const Assignment in_turn = dealt(false);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return weights[a] > weights[b]; });
  const Assignment sorted = dealt(true);
  return in_turn.makespan() < sorted.makespan() ? in_turn.bin : sorted.bin;
}

}  // namespace slimpack
