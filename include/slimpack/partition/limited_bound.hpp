#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/partition/assignment.hpp"
#include "slimpack/partition/bounds.hpp"

namespace slimpack {

/// What the largest load of any assignment that keeps a size limit is at least: `makespan_lower_bound`, and
/// for each item its weight with the least that fills up its bin. For the other bins hold at most their
/// capacity, so that every bin has to hold what is left of the sizes; at best of the items that weigh least
/// for their size, in fractions.
/// @param weights of the items, not negative. @param bins at least 1. @param limit without sizes, there is
/// none.
/// @throws InvalidInput like `makespan_lower_bound`, and if the sizes do not fit the items or the capacity.
/// Complexity: O(n log n). It holds up to the rounding of sums. Worth most where the capacity is tight and a
/// few items heavy.
[[nodiscard]] inline double makespan_lower_bound(std::span<const double> weights, std::size_t bins,
                                                 const SizeLimit& limit) {
  const double bound = makespan_lower_bound(weights, bins);
  detail::check_limit(limit, weights.size());
  if (limit.sizes.empty()) return bound;
  double sum = 0.0;
  for (const std::int64_t size : limit.sizes) sum += static_cast<double>(size);
  const double least = sum - static_cast<double>(bins - 1) * static_cast<double>(limit.capacity);

  // By rising weight per size; what has no size fills nothing.
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < weights.size(); ++i) {
    if (limit.sizes[i] > 0) order.push_back(i);
  }
  const auto size = [&](std::uint32_t i) { return static_cast<double>(limit.sizes[i]); };
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const double left = weights[a] * size(b), right = weights[b] * size(a);
    return left < right || (left == right && a < b);
  });
  std::vector<double> filled{0.0}, weighed{0.0};
  for (const std::uint32_t i : order) {
    filled.push_back(filled.back() + size(i));
    weighed.push_back(weighed.back() + weights[i]);
  }
  const auto weight_of = [&](double room) {
    const auto after = std::lower_bound(filled.begin(), filled.end(), room) - filled.begin();
    if (after == 0) return 0.0;
    const auto k = static_cast<std::size_t>(after) - 1;
    if (k == order.size()) return weighed.back();
    return weighed[k] + (room - filled[k]) * (weights[order[k]] / size(order[k]));
  };
  double most = bound;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const double own = size(order[k]), room = least - own;
    if (room <= 0.0) continue;
    // Without the item itself, what lies behind it in the order moves up.
    const double others = room <= filled[k] ? weight_of(room) : weight_of(room + own) - weights[order[k]];
    most = std::max(most, weights[order[k]] + others);
  }
  return most;
}

}  // namespace slimpack
