#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/partition/assignment.hpp"
#include "slimpack/partition/packing.hpp"

namespace slimpack {

/// The bin of an item that found no room.
inline constexpr std::uint32_t unassigned = ~std::uint32_t{0};

/// Items in bins of limited size, and those that found no room: their bin is `unassigned`.
template <ItemWeight W>
struct CappedAssignment {
  BasicAssignment<W> assignment;
  std::vector<std::int64_t> filled;  ///< [bin] sum of sizes
  std::vector<std::uint32_t> left;   ///< items without a bin, by decreasing size
};

/// What bins hold before the first item is placed.
template <ItemWeight W>
struct BinContents {
  std::span<const W> load;
  std::span<const std::int64_t> filled;
};

namespace detail {

/// Finds the bin with the least load, of equal ones the lowest, while loads grow.
template <ItemWeight W>
class LightestBin {
 public:
  explicit LightestBin(const std::vector<W>& load) {
    std::vector<Entry> all;
    all.reserve(load.size());
    for (std::size_t b = 0; b < load.size(); ++b) all.emplace_back(load[b], b);
    heap_ = Heap(std::greater<>(), std::move(all));
  }

  [[nodiscard]] std::size_t find(const std::vector<W>& load) {
    while (heap_.top().first != load[heap_.top().second]) heap_.pop();
    return heap_.top().second;
  }
  /// Says what a bin holds now; what was known of it is dropped when it is found.
  void changed(std::size_t bin, W load) {
    if (heap_.top().second == bin) heap_.pop();
    heap_.emplace(load, bin);
  }

 private:
  using Entry = std::pair<W, std::size_t>;
  using Heap = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;
  Heap heap_;
};

}  // namespace detail

/// Items by decreasing size, equal sizes in their order, each to the bin with the least load; if that one has no room,
/// to the bin with the most room; if that has too little as well, to no bin. Of equal bins, the lowest.
/// @param weights of the items, not negative. @param limit sizes of the items and what every bin may hold.
/// @param contents of every bin; their number is the number of bins.
/// @throws InvalidInput if there is no bin or a bin exceeds the capacity from the start, a weight is negative or not
/// finite, or sizes do not fit the items or the capacity.
/// Complexity: O(n log bins), O(bins) more for each item that the lightest bin has no room for, and the sort by digits,
/// O(n log capacity).
/// Source: WLB-LLM, Algorithm 1, lines 18 to 35, except that a bin may be filled to exactly its capacity.
template <WeightRange R, ItemWeight W = std::ranges::range_value_t<R>>
[[nodiscard]] CappedAssignment<W> capped_greedy(const R& weights, const SizeLimit& limit,
                                                const BinContents<W>& contents) {
  const std::span<const W> span(weights);
  const std::size_t bins = contents.load.size();
  detail::check_counts(span.size(), bins);
  static_cast<void>(detail::checked_sum(span));
  static_cast<void>(detail::checked_sum(contents.load));
  require(limit.sizes.size() == span.size(), limit.sizes.size(), " sizes of ", span.size(),
          " items; expected one per item");
  require(contents.filled.size() == bins, "sizes of ", contents.filled.size(), " bins, loads of ", bins,
          "; expected both for each");
  for (std::size_t b = 0; b < bins; ++b) {
    require(contents.filled[b] >= 0 && contents.filled[b] <= limit.capacity, "bin ", b, " holds ",
            contents.filled[b], "; expected 0 to the capacity of ", limit.capacity);
  }
  static_cast<void>(detail::checked_sizes("size", limit.sizes, limit.capacity));

  CappedAssignment<W> result;
  auto& load = result.assignment.load;
  auto& filled = result.filled;
  load.assign(contents.load.begin(), contents.load.end());
  filled.assign(contents.filled.begin(), contents.filled.end());
  result.assignment.bin.assign(span.size(), unassigned);
  detail::LightestBin<W> lightest(load);
  for (const std::uint32_t item : detail::falling_order(limit.sizes, limit.capacity)) {
    const std::int64_t room = limit.capacity - limit.sizes[item];
    std::size_t bin = lightest.find(load);
    if (filled[bin] > room)
      bin = static_cast<std::size_t>(std::min_element(filled.begin(), filled.end()) - filled.begin());
    if (filled[bin] > room) {
      result.left.push_back(item);
      continue;
    }
    result.assignment.bin[item] = static_cast<std::uint32_t>(bin);
    load[bin] += span[item];
    filled[bin] += limit.sizes[item];
    lightest.changed(bin, load[bin]);
  }
  return result;
}

/// The same into empty bins.
template <WeightRange R>
[[nodiscard]] auto capped_greedy(const R& weights, const SizeLimit& limit, std::size_t bins) {
  using W = std::ranges::range_value_t<R>;
  detail::check_counts(std::ranges::size(weights), bins);
  const std::vector<W> load(bins, W{});
  const std::vector<std::int64_t> filled(bins, 0);
  return capped_greedy(weights, limit, BinContents<W>{load, filled});
}

}  // namespace slimpack
