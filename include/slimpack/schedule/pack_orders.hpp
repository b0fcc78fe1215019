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

/// Packs by falling duration, equal ones in their order. O(n log n).
[[nodiscard]] inline std::vector<std::uint32_t> falling_packs(std::span<const double> durations) {
  std::vector<std::uint32_t> falling(durations.size());
  std::iota(falling.begin(), falling.end(), std::uint32_t{0});
  std::stable_sort(falling.begin(), falling.end(),
                   [&](auto a, auto b) { return durations[a] > durations[b]; });
  return falling;
}

/// Orders of packs that may shorten a pipeline's schedule, because light packs fill and drain it sooner: by falling duration, and
/// the same with the lightest or the second lightest pack first. O(n log n).
[[nodiscard]] inline std::vector<std::vector<std::uint32_t>> pack_orders(std::span<const double> durations) {
  const std::vector<std::uint32_t> falling = falling_packs(durations);
  std::vector<std::vector<std::uint32_t>> orders{falling};
  for (std::size_t back = 1; back <= 2 && back < falling.size(); ++back) {
    orders.push_back(falling);
    const auto moved = orders.back().end() - static_cast<std::ptrdiff_t>(back);
    std::rotate(orders.back().begin(), moved, moved + 1);
  }
  return orders;
}

namespace detail {

/// The rows of a table in another order.
[[nodiscard]] inline std::vector<double> reordered_rows(const std::vector<double>& table, std::size_t columns,
                                                        std::span<const std::uint32_t> order) {
  std::vector<double> out;
  out.reserve(table.size());
  for (const std::uint32_t k : order) {
    const auto row = table.begin() + static_cast<std::ptrdiff_t>(k * columns);
    out.insert(out.end(), row, row + static_cast<std::ptrdiff_t>(columns));
  }
  return out;
}

}  // namespace detail

/// The packs of a schedule in another order, each at the price and shared by ranks as in the given one.
/// @pre both passes have the same packs, all pipelines run all of them, and they are priced. O(slices + packs * stages).
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
  out.pipelines = given.pipelines;
  out.forward = out.backward = in_rows(std::move(packs), given.pipelines);
  const std::size_t stages = given.stages();
  for (PassTimes Schedule::*times : {&Schedule::forward_times, &Schedule::backward_times}) {
    (out.*times).seconds = detail::reordered_rows((given.*times).seconds, stages, order);
    (out.*times).transfer = detail::reordered_rows((given.*times).transfer, stages - 1, order);
    (out.*times).sharing = other;
  }
  return out;
}

/// Seconds of each pack on all stages, in both passes. O(packs * stages).
[[nodiscard]] inline std::vector<double> pack_durations(const Schedule& schedule) {
  const std::size_t stages = schedule.stages();
  std::vector<double> durations(schedule.forward.packs.size(), 0.0);
  for (std::size_t k = 0; k < durations.size(); ++k) {
    for (std::size_t s = 0; s < stages; ++s)
      durations[k] +=
          schedule.forward_times.seconds[k * stages + s] + schedule.backward_times.seconds[k * stages + s];
  }
  return durations;
}

/// Replaces a schedule by the fastest of those with its packs in one of some orders, if one is faster.
/// @pre both passes have the same packs, all pipelines run all of them, and the schedule fits.
/// O(packs * stages) and scheduling, for each order.
inline void shorten_by_orders(Schedule& best, std::span<const std::vector<std::uint32_t>> orders,
                              std::span<const ScheduleOptions> options, Scheduler& scheduler) {
  Schedule given = best;
  // What layers take that are recomputed or offloaded depends on the order.
  if (given.recompute.any() || given.recompute.offloads()) scheduler.price_as_shared(given);
  for (const std::vector<std::uint32_t>& order : orders) {
    const Schedule priced = reordered(given, order);
    for (const ScheduleOptions& each : options) {
      Schedule candidate = priced;
      scheduler.schedule_priced(candidate, each, best.seconds);
      if (candidate.seconds < best.seconds) best = std::move(candidate);
    }
  }
}

/// The same for `pack_orders`.
inline void shorten_by_order(Schedule& best, const ScheduleOptions& options, Scheduler& scheduler) {
  shorten_by_orders(best, pack_orders(pack_durations(best)), {&options, 1}, scheduler);
}

}  // namespace slimpack
