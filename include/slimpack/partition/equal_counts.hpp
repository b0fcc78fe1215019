#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/partition/local_search.hpp"

namespace slimpack {

/// Which micro-batches each replica gets.
enum class ReplicaDealing : std::uint8_t {
  in_turn,   ///< as loaders deal them
  balanced,  ///< equal counts, and work as equal as swaps can make it
};

/// In which order a replica runs its micro-batches.
enum class MicroBatchOrder : std::uint8_t {
  as_given,  ///< as the packing left them
  fastest,   ///< the best of a few orders: light micro-batches fill and drain a pipeline sooner
};

namespace detail {

/// Other orders of a replica's packs that are worth a try: by falling duration, and the same with the lightest or the
/// second lightest pack first. O(n log n).
inline std::vector<std::vector<std::uint32_t>> pack_orders(std::span<const double> durations) {
  std::vector<std::uint32_t> falling(durations.size());
  std::iota(falling.begin(), falling.end(), std::uint32_t{0});
  std::stable_sort(falling.begin(), falling.end(),
                   [&](auto a, auto b) { return durations[a] > durations[b]; });
  std::vector<std::vector<std::uint32_t>> orders{falling};
  for (std::size_t back = 1; back <= 2 && back < falling.size(); ++back) {
    orders.push_back(falling);
    const auto moved = orders.back().end() - static_cast<std::ptrdiff_t>(back);
    std::rotate(orders.back().begin(), moved, moved + 1);
  }
  return orders;
}

/// Replica of each of `work.size()` micro-batches; counts differ by at most one. From two starts, dealt in turn and dealt
/// back and forth with the heaviest first, micro-batches are swapped while that helps; never worse than in turn.
/// O(n log n) plus the local searches.
inline std::vector<std::uint32_t> deal_balanced(std::span<const double> work, std::size_t replicas) {
  std::vector<std::uint32_t> order(work.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  const auto dealt = [&](bool back_and_forth) {
    Assignment out{std::vector<std::uint32_t>(work.size()), std::vector<double>(replicas, 0.0)};
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::size_t turn = i / replicas, at = i % replicas;
      const std::size_t replica = back_and_forth && turn % 2 != 0 ? replicas - 1 - at : at;
      out.bin[order[i]] = static_cast<std::uint32_t>(replica);
      out.load[replica] += work[order[i]];
    }
    improve_assignment(work, out, {.keep_counts = true});
    return out;
  };
  const Assignment in_turn = dealt(false);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return work[a] > work[b]; });
  const Assignment sorted = dealt(true);
  return in_turn.makespan() < sorted.makespan() ? in_turn.bin : sorted.bin;
}

/// The packs that hold tokens. Those of fewer tokens than there are context-parallel ranks join the one of the
/// others that has the fewest tokens.
/// @throws InvalidInput if all together have fewer. O(slices + packs^2) at worst.
inline Packs shardable_packs(const Packs& packs, std::int32_t cp) {
  std::vector<std::vector<Slice>> kept;
  std::vector<Slice> small;
  for (std::size_t k = 0; k < packs.size(); ++k) {
    std::vector<Slice> pack(packs[k].begin(), packs[k].end());
    if (count_tokens(pack) >= cp) {
      kept.push_back(std::move(pack));
    } else {
      small.insert(small.end(), pack.begin(), pack.end());
    }
  }
  if (!small.empty()) {
    if (kept.empty()) kept.emplace_back();
    auto& least = *std::min_element(kept.begin(), kept.end(), [](const auto& a, const auto& b) {
      return count_tokens(a) < count_tokens(b);
    });
    least.insert(least.end(), small.begin(), small.end());
    require(count_tokens(least) >= cp, "cp is ", cp, "; expected at most the ", count_tokens(least),
            " tokens of the iteration");
  }
  Packs out;
  for (const auto& pack : kept) {
    for (const Slice& slice : pack) out.add(slice);
    out.close();
  }
  return out;
}

}  // namespace detail

}  // namespace slimpack
