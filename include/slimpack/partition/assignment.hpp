#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ranges>
#include <span>
#include <string_view>
#include <vector>

#include "slimpack/core/error.hpp"

namespace slimpack {

/// What an item can weigh: integers, whose sums are exact, or floating point.
template <class T>
concept ItemWeight = std::floating_point<T> ||(std::integral<T> && sizeof(T) >= sizeof(int));

/// Anything that holds weights in a row: a vector, a span, an array.
template <class R>
concept WeightRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    ItemWeight<std::ranges::range_value_t<R>>;

/// Items in bins: the bin of each item, and what each bin holds.
template <ItemWeight W>
struct BasicAssignment {
  std::vector<std::uint32_t> bin;
  std::vector<W> load;

  [[nodiscard]] W makespan() const {
    return load.empty() ? W{} : *std::max_element(load.begin(), load.end());
  }
  friend bool operator==(const BasicAssignment&, const BasicAssignment&) = default;
};

using Assignment = BasicAssignment<double>;

/// A second weight of every item, and what any bin may hold of it: for example tokens, if the weight is work.
/// Without sizes there is no such limit.
struct SizeLimit {
  std::span<const std::int64_t> sizes = {};  ///< of the items, not negative
  std::int64_t capacity = 0;                 ///< of every bin
};

namespace detail {

/// Sum of the weights. @throws InvalidInput if one is negative or not finite, or the sum does not fit its
/// type.
template <ItemWeight W>
W checked_sum(std::span<const W> weights) {
  W sum{};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if constexpr (std::floating_point<W>) {
      require(weights[i] >= W{} && std::isfinite(weights[i]), "weight of item ", i, " is ", weights[i],
              "; expected a finite number, not negative");
    } else {
      require(weights[i] >= W{}, "weight of item ", i, " is ", weights[i], "; expected 0 or more");
      require(weights[i] <= std::numeric_limits<W>::max() - sum, "the weights up to item ", i,
              " sum to more than ", std::numeric_limits<W>::max());
    }
    sum += weights[i];
  }
  if constexpr (std::floating_point<W>) {
    require(std::isfinite(sum), "the weights sum to infinity; expected a finite sum");
  }
  return sum;
}

/// @throws InvalidInput unless there are bins, and items and bins can be numbered.
inline void check_counts(std::size_t items, std::size_t bins) {
  require(bins >= 1, "0 bins; expected at least 1");
  constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();
  require(items <= most && bins <= most, items, " items and ", bins, " bins; expected at most ", most);
}

/// Sum of what items take of a capacity; messages call it `what`. @throws InvalidInput if one fits into no
/// bin, or the sum is above 2^63 - 1.
inline std::int64_t checked_sizes(std::string_view what, std::span<const std::int64_t> sizes,
                                  std::int64_t capacity) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    require(sizes[i] >= 0 && sizes[i] <= capacity, what, " of item ", i, " is ", sizes[i],
            "; expected 0 to the capacity of ", capacity);
    require(sizes[i] <= std::numeric_limits<std::int64_t>::max() - sum, what, " of item ", i,
            " brings the sum above 2^63 - 1");
    sum += sizes[i];
  }
  return sum;
}

/// @throws InvalidInput if there are sizes, but not one per item, or one that fits into no bin.
inline void check_limit(const SizeLimit& limit, std::size_t items) {
  if (limit.sizes.empty()) return;
  require(limit.sizes.size() == items, limit.sizes.size(), " sizes of ", items,
          " items; expected one per item, or none at all");
  static_cast<void>(checked_sizes("size", limit.sizes, limit.capacity));
}

template <ItemWeight W>
struct WeighedItem {
  W weight;
  std::uint32_t item;
};

/// The items by decreasing weight, equal weights in their order.
template <ItemWeight W>
void sort_falling(std::span<const W> weights, std::vector<WeighedItem<W>>& sorted) {
  sorted.resize(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) sorted[i] = {weights[i], static_cast<std::uint32_t>(i)};
  const auto before = [](const WeighedItem<W>& a, const WeighedItem<W>& b) {
    return a.weight > b.weight || (a.weight == b.weight && a.item < b.item);
  };
  if (!std::is_sorted(sorted.begin(), sorted.end(), before)) std::sort(sorted.begin(), sorted.end(), before);
}

}  // namespace detail

}  // namespace slimpack
