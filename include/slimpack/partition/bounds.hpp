#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <ranges>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/partition/assignment.hpp"

namespace slimpack {

/// A lower bound on the largest load of any assignment: the mean load (rounded up for integers), the heaviest
/// item, and for each c the c + 1 lightest of the c * bins + 1 heaviest items, because some bin holds c + 1
/// of them.
/// @param weights of the items, not negative. @param bins at least 1.
/// @throws InvalidInput if there is no bin, a weight is negative or not finite, or their sum overflows.
/// Complexity: O(n log n). A floating-point bound holds up to the rounding of its sum.
/// Source: Dell'Amico and Martello (1995), section 2.
template <WeightRange R>
[[nodiscard]] auto makespan_lower_bound(const R& weights, std::size_t bins) {
  using W = std::ranges::range_value_t<R>;
  detail::check_counts(std::ranges::size(weights), bins);
  const W sum = detail::checked_sum(std::span<const W>(weights));
  const auto k = static_cast<std::uint64_t>(bins);
  W bound{};
  if constexpr (std::integral<W>) {
    const auto whole = static_cast<std::uint64_t>(sum);
    bound = static_cast<W>(whole / k + (whole % k != 0 ? 1 : 0));
  } else {
    bound = sum / static_cast<W>(bins);
  }
  std::vector<W> sorted(std::ranges::begin(weights), std::ranges::end(weights));
  std::sort(sorted.begin(), sorted.end(), std::greater<>{});
  std::vector<W> before(sorted.size() + 1, W{});
  std::partial_sum(sorted.begin(), sorted.end(), before.begin() + 1);
  std::size_t best = 0;
  W most{};
  for (std::size_t c = 0; c * bins < sorted.size(); ++c) {
    const W lightest = before[c * bins + 1] - before[c * bins - c];
    if (lightest > most) std::tie(best, most) = std::pair(c, lightest);
  }
  // Differences of long floating-point sums are inexact, so they only choose the best c.
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(sorted.size(), best * bins + 1));
  const auto begin = sorted.begin() + static_cast<std::ptrdiff_t>(best * bins - best);
  return std::max(bound, std::accumulate(begin, end, W{}));
}

/// A lower bound on the number of bins of any packing: Martello and Toth's L2 (1990, section 8.3). Items
/// above half the capacity need a bin each. For every a up to half the capacity, items above capacity - a
/// share their bin with nothing of weight a or more; the items from a to half the capacity need further bins
/// as far as they exceed the room left by the others. In addition, a bin holds at most capacity / w items of
/// weight w or more.
/// @param weights of the items, 0 <= weight <= capacity, with a sum below 2^63.
/// @return never less than the sum over the capacity, rounded up (L1); 1 if all items weigh nothing.
/// @throws InvalidInput naming the first item that no bin can hold.
/// Complexity: O(n log n). At least 2/3 of the fewest bins.
[[nodiscard]] inline std::size_t packing_lower_bound(std::span<const std::int64_t> weights,
                                                     std::int64_t capacity) {
  require(capacity > 0, "capacity is ", capacity, "; expected at least 1");
  const auto bins_for = [&](std::int64_t sum) {
    return static_cast<std::size_t>(sum / capacity + (sum % capacity != 0 ? 1 : 0));
  };
  std::size_t bound = bins_for(detail::checked_sizes("weight", weights, capacity));
  std::vector<std::int64_t> sorted(weights.begin(), weights.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>{});
  const std::int64_t half = capacity / 2;
  const auto light =
      std::partition_point(sorted.begin(), sorted.end(), [&](std::int64_t w) { return w > half; });
  const auto heavy = static_cast<std::size_t>(light - sorted.begin());
  bound = std::max({bound, heavy, std::size_t{weights.empty() ? 0U : 1U}});
  for (std::size_t i = heavy; i < sorted.size() && sorted[i] > 0; ++i) {
    const auto most = static_cast<std::size_t>(capacity / sorted[i]);
    bound = std::max(bound, (i + most) / most);
  }
  // As a decreases from item to item, more of the heavy items can share their bin.
  std::size_t alone = heavy;
  std::int64_t room = 0, light_sum = 0;
  for (std::size_t i = heavy; i < sorted.size(); ++i) {
    light_sum += sorted[i];
    if (i + 1 < sorted.size() && sorted[i + 1] == sorted[i]) continue;
    while (alone > 0 && sorted[alone - 1] <= capacity - sorted[i]) room += capacity - sorted[--alone];
    if (light_sum > room) bound = std::max(bound, heavy + bins_for(light_sum - room));
  }
  return bound;
}

}  // namespace slimpack
