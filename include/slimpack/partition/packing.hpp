#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/partition/assignment.hpp"

namespace slimpack {

/// Items in bins of limited capacity: the bin of each item, and what each bin holds.
struct Packing {
  std::vector<std::uint32_t> bin;
  std::vector<std::int64_t> load;
};

namespace detail {

/// A set of small integers that finds its least member at or above a value in three word operations.
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

/// Sorts items by one digit of their key, `key(item)` < `keys`; equal digits stay in order.
template <class Key>
void sort_by_digit(std::span<const std::uint32_t> items, std::size_t keys, Key&& key,
                   std::span<std::uint32_t> sorted) {
  std::vector<std::uint32_t> first(keys + 1, 0);
  for (const std::uint32_t item : items) ++first[key(item) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  for (const std::uint32_t item : items) sorted[first[key(item)]++] = item;
}

/// Indices of the items by decreasing weight, equal weights in their order: as they are if they fall already, by
/// comparison if there are few, by one counting sort if weights are small, otherwise by 11 bits at a time.
inline std::vector<std::uint32_t> falling_order(std::span<const std::int64_t> weights,
                                                std::int64_t capacity) {
  std::vector<std::uint32_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  if (std::is_sorted(weights.begin(), weights.end(), std::greater<>())) return order;
  constexpr std::size_t few = 200;  // a counting sort goes through as many counts as a digit has values
  if (weights.size() <= few) {
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return weights[a] > weights[b]; });
    return order;
  }
  std::vector<std::uint32_t> sorted(weights.size());
  const auto key = [&](std::uint32_t item) { return static_cast<std::size_t>(capacity - weights[item]); };
  const std::size_t keys = static_cast<std::size_t>(capacity) + 1;
  if (keys <= 16 * weights.size() + 4096) {
    sort_by_digit(order, keys, key, sorted);
    return sorted;
  }
  constexpr std::size_t bits = 11, digits = std::size_t{1} << bits;
  for (std::size_t shift = 0; shift < static_cast<std::size_t>(std::bit_width(keys - 1)); shift += bits) {
    sort_by_digit(
        order, digits, [&](std::uint32_t i) { return (key(i) >> shift) % digits; }, sorted);
    order.swap(sorted);
  }
  return order;
}

/// Open bins, which give the fullest one with enough room; of several, the one that changed last.
class FullestFirst {
 public:
  FullestFirst(std::size_t, std::int64_t, std::int64_t capacity)
      : capacity_(capacity), open_(rooms()), top_(rooms(), none) {}

  /// The bin that takes an item of this weight.
  std::uint32_t place(std::int64_t weight) {
    std::int64_t room = open_.at_least(static_cast<std::size_t>(weight));
    std::uint32_t bin = none;
    if (room < 0) {
      bin = static_cast<std::uint32_t>(below_.size());
      below_.push_back(none);
      room = capacity_;
    } else {
      const auto r = static_cast<std::size_t>(room);
      bin = top_[r];
      top_[r] = below_[bin];
      if (top_[r] == none) open_.erase(r);
    }
    const auto left = static_cast<std::size_t>(room - weight);
    below_[bin] = top_[left];
    if (top_[left] == none) open_.insert(left);
    top_[left] = bin;
    return bin;
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  [[nodiscard]] std::size_t rooms() const { return static_cast<std::size_t>(capacity_) + 1; }

  std::int64_t capacity_;
  RoomSet open_;
  std::vector<std::uint32_t> top_;    // [room] bin on top of the stack of bins with that room
  std::vector<std::uint32_t> below_;  // [bin] bin under it in its stack
};

/// The same for few items: looks at all open bins, which needs no memory for each room.
class FullestOfFew {
 public:
  FullestOfFew(std::size_t, std::int64_t, std::int64_t capacity) : capacity_(capacity) {}

  /// Whether that takes about fewer steps than to set up `FullestFirst`.
  [[nodiscard]] static bool pays(std::size_t items, std::int64_t sum, std::int64_t capacity) {
    constexpr double steps = 32.0;  // for each item and bin; setting up clears 8 rooms in a step
    const double bins = static_cast<double>(sum) / static_cast<double>(capacity) + 1.0;
    return steps * static_cast<double>(items) * bins < static_cast<double>(capacity);
  }

  std::uint32_t place(std::int64_t weight) {
    std::size_t best = bins_.size();
    for (std::size_t b = 0; b < bins_.size(); ++b) {
      if (bins_[b].room < weight) continue;
      if (best == bins_.size() || bins_[b].room < bins_[best].room ||
          (bins_[b].room == bins_[best].room && bins_[b].changed > bins_[best].changed))
        best = b;
    }
    if (best == bins_.size()) bins_.push_back({capacity_, 0});
    bins_[best].room -= weight;
    bins_[best].changed = ++placed_;
    return static_cast<std::uint32_t>(best);
  }

 private:
  struct Bin {
    std::int64_t room;
    std::size_t changed;  // when it took its last item
  };

  std::int64_t capacity_;
  std::vector<Bin> bins_;
  std::size_t placed_ = 0;
};

/// Bins in order, which give the first one with enough room: a tree of the largest room below each node.
class LowestFirst {
 public:
  LowestFirst(std::size_t items, std::int64_t sum, std::int64_t capacity) {
    // Any two bins hold more than one capacity together, so more bins than these are never opened.
    const auto full = static_cast<std::size_t>(sum / capacity);
    leaves_ = std::bit_ceil(std::clamp<std::size_t>(items, 1, 2 * full + 2));
    room_.assign(2 * leaves_, capacity);
  }

  std::uint32_t place(std::int64_t weight) {
    std::size_t node = 1;
    while (node < leaves_) node = 2 * node + (room_[2 * node] < weight ? 1 : 0);
    const auto bin = static_cast<std::uint32_t>(node - leaves_);
    room_[node] -= weight;
    while ((node /= 2) > 0) {
      const std::int64_t most = std::max(room_[2 * node], room_[2 * node + 1]);
      if (room_[node] == most) break;
      room_[node] = most;
    }
    return bin;
  }

 private:
  std::size_t leaves_;
  std::vector<std::int64_t> room_;  // [node] children of i are 2i and 2i + 1
};

/// Places the items by decreasing weight. @param sum of all weights, as `checked_sizes` gives it.
template <class OpenBins>
Packing pack_decreasing(std::span<const std::int64_t> weights, std::int64_t sum, std::int64_t capacity) {
  OpenBins open(weights.size(), sum, capacity);
  Packing packing;
  packing.bin.resize(weights.size());
  for (const std::uint32_t item : falling_order(weights, capacity)) {
    const std::uint32_t bin = open.place(weights[item]);
    if (bin == packing.load.size()) packing.load.push_back(0);
    packing.bin[item] = bin;
    packing.load[bin] += weights[item];
  }
  return packing;
}

}  // namespace detail

/// Best-fit decreasing: items by decreasing weight, each into the fullest bin that has room, or a new one if
/// none has.
/// @param weights of the items, 0 <= weight <= capacity. @param capacity of every bin, at most 2^32.
/// @throws InvalidInput naming the first item that no bin can hold.
/// Complexity: O(n log_64 capacity) plus the sort; memory O(n + capacity), or O(n * bins) and O(n) where that is less. At most
/// 11/9 OPT + 6/9 bins.
[[nodiscard]] inline Packing best_fit_decreasing(std::span<const std::int64_t> weights,
                                                 std::int64_t capacity) {
  require(capacity > 0 && capacity <= std::int64_t{1} << 32, "capacity is ", capacity,
          "; expected 1 to 2^32");
  const std::int64_t sum = detail::checked_sizes("weight", weights, capacity);
  return detail::FullestOfFew::pays(weights.size(), sum, capacity)
             ? detail::pack_decreasing<detail::FullestOfFew>(weights, sum, capacity)
             : detail::pack_decreasing<detail::FullestFirst>(weights, sum, capacity);
}

/// First-fit decreasing: items by decreasing weight, each into the first bin that has room, or a new one if
/// none has.
/// @param weights of the items, 0 <= weight <= capacity, with a sum below 2^63. @param capacity of every bin.
/// @throws InvalidInput naming the first item that no bin can hold.
/// Complexity: O(n log bins) plus the sort; memory O(n), whatever the capacity. At most 11/9 OPT + 6/9 bins
/// (Dosa 2007).
[[nodiscard]] inline Packing first_fit_decreasing(std::span<const std::int64_t> weights,
                                                  std::int64_t capacity) {
  require(capacity > 0, "capacity is ", capacity, "; expected at least 1");
  return detail::pack_decreasing<detail::LowestFirst>(
      weights, detail::checked_sizes("weight", weights, capacity), capacity);
}

}  // namespace slimpack
