#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/partition/assignment.hpp"
#include "slimpack/partition/packing.hpp"

namespace slimpack {

struct LeastSlackOptions {
  std::uint64_t max_steps_per_bin = 20000;  ///< items tried before a bin gets its best content so far
};

namespace detail {

/// Fills one bin after another from the items that are left.
class SlackFiller {
 public:
  SlackFiller(std::span<const std::int64_t> weights, std::int64_t capacity)
      : capacity_(capacity), left_(falling_order(weights, capacity)) {
    // Items without weight stay in the first bin.
    while (!left_.empty() && weights[left_.back()] == 0) left_.pop_back();
    weight_.reserve(left_.size());
    for (const std::uint32_t item : left_) weight_.push_back(weights[item]);
  }
  [[nodiscard]] bool done() const { return left_.empty(); }

  /// Opens a bin with the heaviest item, and tries others with it, heavy ones first, to leave as little room
  /// as possible.
  void fill_bin(std::uint32_t bin, std::uint64_t max_steps, Packing& packing) {
    sum_from_.assign(left_.size() + 1, 0);
    for (std::size_t i = left_.size(); i-- > 0;) sum_from_[i] = sum_from_[i + 1] + weight_[i];
    chosen_.assign(1, 0);
    best_ = chosen_;
    std::int64_t room = capacity_ - weight_[0], least = room;
    for (std::size_t next = 1;;) {
      next = first_within(next, room);
      // Even taking all that follow would not leave less room.
      if (next < left_.size() && least > 0 && max_steps > 0 && sum_from_[next] > room - least) {
        --max_steps;
        chosen_.push_back(next);
        room -= weight_[next++];
        if (room < least) {
          least = room;
          best_ = chosen_;
        }
        continue;
      }
      if (chosen_.size() == 1 || least == 0 || max_steps == 0) break;
      const std::int64_t last = weight_[chosen_.back()];
      next = first_within(chosen_.back(), last - 1);
      room += last;
      chosen_.pop_back();
    }
    packing.load.push_back(capacity_ - least);
    remove_best(bin, packing);
  }

 private:
  /// First item from `begin` on that weighs no more than `most`.
  [[nodiscard]] std::size_t first_within(std::size_t begin, std::int64_t most) const {
    const auto first = weight_.begin() + static_cast<std::ptrdiff_t>(begin);
    return static_cast<std::size_t>(
        std::partition_point(first, weight_.end(), [&](std::int64_t w) { return w > most; }) -
        weight_.begin());
  }

  void remove_best(std::uint32_t bin, Packing& packing) {
    std::size_t kept = 0, taken = 0;
    for (std::size_t i = 0; i < left_.size(); ++i) {
      if (taken < best_.size() && best_[taken] == i) {
        packing.bin[left_[i]] = bin;
        ++taken;
      } else {
        left_[kept] = left_[i];
        weight_[kept++] = weight_[i];
      }
    }
    left_.resize(kept);
    weight_.resize(kept);
  }

  std::int64_t capacity_;
  std::vector<std::uint32_t> left_;         // items by decreasing weight
  std::vector<std::int64_t> weight_;        // [place in left_]
  std::vector<std::int64_t> sum_from_;      // [place in left_] of it and all after it
  std::vector<std::size_t> chosen_, best_;  // places in left_, ascending
};

}  // namespace detail

/// Minimum bin slack: fills one bin after another with the heaviest item left and those others that leave the
/// least room. If few items share a bin, it finds packings that best fit misses.
/// @param weights of the items, 0 <= weight <= capacity, with a sum below 2^63. @param capacity of every bin.
/// @throws InvalidInput naming the first item that no bin can hold.
/// Complexity: O(n + max_steps_per_bin log n) per bin; memory O(n).
/// Source: Gupta and Ho (1999); the heaviest item first: Fleszar and Hindi (2002), MBS'.
[[nodiscard]] inline Packing least_slack_packing(std::span<const std::int64_t> weights, std::int64_t capacity,
                                                 const LeastSlackOptions& options = {}) {
  require(capacity > 0, "capacity is ", capacity, "; expected at least 1");
  static_cast<void>(detail::checked_sizes("weight", weights, capacity));
  Packing packing;
  packing.bin.resize(weights.size(), 0);
  detail::SlackFiller filler(weights, capacity);
  for (std::uint32_t bin = 0; !filler.done(); ++bin) filler.fill_bin(bin, options.max_steps_per_bin, packing);
  if (packing.load.empty() && !weights.empty()) packing.load.push_back(0);
  return packing;
}

}  // namespace slimpack
