#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"

namespace slimpack {

/// Items in bins of limited capacity: the bin of each item, and what each bin holds.
struct Packing {
  std::vector<std::uint32_t> bin;
  std::vector<std::int64_t> load;
};

namespace detail {

/// A set of small integers in which the least member at or above a value is found in three word operations.
class RoomSet {
 public:
  explicit RoomSet(std::size_t size) {
    for (std::size_t words = size / 64 + 1;; words = words / 64 + 1) {
      levels_.emplace_back(words, 0);
      if (words == 1) break;
    }
  }
  void insert(std::size_t i) {
    for (auto& level : levels_) {
      level[i / 64] |= std::uint64_t{1} << (i % 64);
      i /= 64;
    }
  }
  void erase(std::size_t i) {
    for (auto& level : levels_) {
      level[i / 64] &= ~(std::uint64_t{1} << (i % 64));
      if (level[i / 64] != 0) return;
      i /= 64;
    }
  }
  /// Least member >= i, or -1.
  [[nodiscard]] std::int64_t at_least(std::size_t i) const {
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      if (i / 64 >= levels_[l].size()) return -1;
      const std::uint64_t word = levels_[l][i / 64] & (~std::uint64_t{0} << (i % 64));
      if (word != 0) {
        i = i / 64 * 64 + static_cast<std::size_t>(std::countr_zero(word));
        while (l-- > 0) i = 64 * i + static_cast<std::size_t>(std::countr_zero(levels_[l][i]));
        return static_cast<std::int64_t>(i);
      }
      i = i / 64 + 1;
    }
    return -1;
  }

 private:
  std::vector<std::vector<std::uint64_t>> levels_;
};

/// Indices of the items by falling weight, equal weights in order. Counting sort where weights are small.
inline std::vector<std::uint32_t> falling_order(std::span<const std::int64_t> weights,
                                                std::int64_t capacity) {
  std::vector<std::uint32_t> order(weights.size());
  if (static_cast<std::uint64_t>(capacity) > 16 * weights.size() + 4096) {
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return weights[a] > weights[b]; });
    return order;
  }
  std::vector<std::uint32_t> first(static_cast<std::size_t>(capacity) + 2, 0);
  const auto key = [&](std::size_t i) { return static_cast<std::size_t>(capacity - weights[i]); };
  for (std::size_t i = 0; i < weights.size(); ++i) ++first[key(i) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  for (std::size_t i = 0; i < weights.size(); ++i) order[first[key(i)]++] = static_cast<std::uint32_t>(i);
  return order;
}

}  // namespace detail

/// Best-fit decreasing: items by falling weight, each into the fullest bin that still has room, a new one if none has.
/// @param weights of the items, 0 <= weight <= capacity. @param capacity of every bin.
/// @throws InvalidInput naming the first item that no bin can hold.
/// Complexity: O(n log_64 capacity) beside the sort; memory O(n + capacity). At most 11/9 OPT + 6/9 bins.
[[nodiscard]] inline Packing best_fit_decreasing(std::span<const std::int64_t> weights,
                                                 std::int64_t capacity) {
  require(capacity > 0 && capacity <= std::int64_t{1} << 32, "capacity is ", capacity,
          "; expected 1 to 2^32");
  for (std::size_t i = 0; i < weights.size(); ++i) {
    require(weights[i] >= 0 && weights[i] <= capacity, "weight of item ", i, " is ", weights[i],
            "; expected 0 to the capacity of ", capacity);
  }
  constexpr std::uint32_t none = ~std::uint32_t{0};
  const auto rooms = static_cast<std::size_t>(capacity) + 1;
  detail::RoomSet open(rooms);
  std::vector<std::uint32_t> top(rooms, none);  // [room] bin on top of the stack of bins with that room
  std::vector<std::uint32_t> below;             // [bin] bin under it in its stack
  Packing packing;
  packing.bin.resize(weights.size());
  for (const std::uint32_t item : detail::falling_order(weights, capacity)) {
    const std::int64_t weight = weights[item];
    std::int64_t room = open.at_least(static_cast<std::size_t>(weight));
    std::uint32_t bin = none;
    if (room < 0) {
      bin = static_cast<std::uint32_t>(packing.load.size());
      packing.load.push_back(0);
      below.push_back(none);
      room = capacity;
    } else {
      const auto r = static_cast<std::size_t>(room);
      bin = top[r];
      top[r] = below[bin];
      if (top[r] == none) open.erase(r);
    }
    const auto left = static_cast<std::size_t>(room - weight);
    packing.bin[item] = bin;
    packing.load[bin] += weight;
    below[bin] = top[left];
    if (top[left] == none) open.insert(left);
    top[left] = bin;
  }
  return packing;
}

}  // namespace slimpack
