#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/partition/assignment.hpp"

namespace slimpack::detail {

/// Sums of sizes that subsets of items reach, found item by item. The first subset found for a sum is kept,
/// so items with little weight per size should be added first.
template <ItemWeight W>
class SubsetSums {
 public:
  explicit SubsetSums(std::int64_t most)
      : most_(static_cast<std::size_t>(most)),
        reached_(most_ / 64 + 1, 0),
        last_(most_ + 1, 0),
        weight_(most_ + 1, W{}) {
    reached_[0] = 1;
  }

  /// Items are numbered from 0 in the order in which they are added. O(most / 64 + new sums).
  void add(std::int64_t size, W weight) {
    const auto number = static_cast<std::uint32_t>(sizes_.size());
    sizes_.push_back(size);
    if (size <= 0 || static_cast<std::size_t>(size) > most_) return;
    const auto s = static_cast<std::size_t>(size);
    const std::size_t words = s / 64, bits = s % 64;
    // From the top, so that a word is read before it changes.
    for (std::size_t w = reached_.size(); w-- > words;) {
      std::uint64_t shifted = reached_[w - words] << bits;
      if (bits > 0 && w > words) shifted |= reached_[w - words - 1] >> (64 - bits);
      for (std::uint64_t fresh = shifted & ~reached_[w]; fresh != 0; fresh &= fresh - 1) {
        const std::size_t sum = 64 * w + static_cast<std::size_t>(std::countr_zero(fresh));
        if (sum > most_) break;
        last_[sum] = number;
        weight_[sum] = weight_[sum - s] + weight;
      }
      reached_[w] |= shifted;
    }
  }

  /// The lightest known subset whose size is from `least` to `most`; nothing if none is known.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> lightest(std::int64_t least) const {
    std::size_t best = most_ + 1;
    for (std::size_t sum = static_cast<std::size_t>(least); sum <= most_; ++sum) {
      const bool known = (reached_[sum / 64] >> (sum % 64) & 1) != 0;
      if (known && (best > most_ || weight_[sum] < weight_[best])) best = sum;
    }
    if (best > most_) return std::nullopt;
    std::vector<std::uint32_t> subset;
    for (std::size_t sum = best; sum > 0; sum -= static_cast<std::size_t>(sizes_[last_[sum]]))
      subset.push_back(last_[sum]);
    return subset;
  }

 private:
  std::size_t most_;
  std::vector<std::uint64_t> reached_;  // one bit per sum
  std::vector<std::uint32_t> last_;     // [sum] the item that reached it
  std::vector<W> weight_;               // [sum] of the subset
  std::vector<std::int64_t> sizes_;     // [item]
};

/// Items that share a bin with the heaviest one: they weigh little, and leave no more than the other bins can
/// hold. Nothing if none are found, or if sizes are so large that the sums would take more than 2^22 entries.
/// Complexity: O(n log n + k need / 64 + sums), where k is about twice the number of these items.
template <ItemWeight W>
std::optional<std::vector<std::uint32_t>> lightest_companions(std::span<const W> weights,
                                                              const SizeLimit& limit, std::size_t bins,
                                                              std::uint32_t heaviest) {
  std::vector<std::uint32_t> order;
  double total = 0.0;
  for (std::uint32_t i = 0; i < weights.size(); ++i) {
    total += static_cast<double>(limit.sizes[i]);
    if (i != heaviest && limit.sizes[i] > 0) order.push_back(i);
  }
  const auto density = [&](std::uint32_t i) {
    return static_cast<double>(weights[i]) / static_cast<double>(limit.sizes[i]);
  };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return density(a) < density(b); });
  const double elsewhere = static_cast<double>(limit.capacity) * static_cast<double>(bins - 1);
  const auto need = std::max<double>(total - elsewhere - static_cast<double>(limit.sizes[heaviest]), 0.0);
  constexpr double most_sums = 1 << 22;
  if (need > most_sums) return std::nullopt;
  const auto least = static_cast<std::int64_t>(need);
  std::int64_t sum = 0, largest = 0;
  std::size_t taken = 0;
  for (; taken < order.size() && sum < least; ++taken) {
    sum += limit.sizes[order[taken]];
    largest = std::max(largest, limit.sizes[order[taken]]);
  }
  const std::int64_t most = std::min(limit.capacity - limit.sizes[heaviest], least + largest);
  if (sum < least || most < least || static_cast<double>(most) > most_sums) return std::nullopt;
  SubsetSums<W> sums(most);
  // Twice as many make exact sums more likely.
  const std::size_t tried = std::min(order.size(), 2 * taken + 8);
  for (std::size_t k = 0; k < tried; ++k) sums.add(limit.sizes[order[k]], weights[order[k]]);
  auto subset = sums.lightest(least);
  if (subset) {
    for (std::uint32_t& number : *subset) number = order[number];
  }
  return subset;
}

}  // namespace slimpack::detail
