#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/schedule/scheduler.hpp"

namespace slimpack {

/// Orders of packs that may shorten a pipeline's schedule, for light packs fill and drain it sooner: by falling duration, and
/// the same with the lightest or the second lightest pack first. O(n log n).
[[nodiscard]] inline std::vector<std::vector<std::uint32_t>> pack_orders(std::span<const double> durations) {
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

/// The packs of one pipeline in another order, each shared by ranks as in the given one; not priced yet.
/// @pre both passes have the same packs. O(slices).
[[nodiscard]] inline Schedule reordered(const Schedule& given, std::span<const std::uint32_t> order) {
  const PackSharing& sharing = given.forward_times.sharing;
  Packs packs;
  PackSharing other;
  other.block = sharing.block;
  for (const std::uint32_t k : order) {
    packs.repeat_row(1, given.forward.packs[k]);
    other.sharding.push_back(sharing.sharding[k]);
    other.exchange.push_back(sharing.exchange[k]);
    other.attention.push_back(sharing.attention[k]);
    other.per_document.repeat_row(1, sharing.per_document[k]);
  }
  Schedule out;
  out.pipelines = 1;
  out.forward = out.backward = in_rows(std::move(packs));
  out.forward_times.sharing = out.backward_times.sharing = std::move(other);
  return out;
}

/// Replaces the schedule of one pipeline by the fastest of those with its packs in one of `pack_orders`, if one is faster.
/// @pre both passes have the same packs. O(packs * stages) and scheduling, for each order.
inline void shorten_by_order(Schedule& best, const ScheduleOptions& options, Scheduler& scheduler) {
  const Schedule given = best;
  const std::size_t stages = given.stages();
  std::vector<double> durations(given.forward.packs.size(), 0.0);
  for (std::size_t k = 0; k < durations.size(); ++k) {
    for (std::size_t s = 0; s < stages; ++s)
      durations[k] +=
          given.forward_times.seconds[k * stages + s] + given.backward_times.seconds[k * stages + s];
  }
  for (const std::vector<std::uint32_t>& order : pack_orders(durations)) {
    Schedule candidate = reordered(given, order);
    scheduler.price_as_shared(candidate);
    scheduler.schedule_priced(candidate, options);
    if (candidate.seconds < best.seconds) best = std::move(candidate);
  }
}

}  // namespace slimpack
