#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/schedule/pack_orders.hpp"

namespace slimpack {

/// Packs in clusters of similar durations.
struct PackClusters {
  std::vector<std::uint32_t> falling;  ///< packs by falling duration
  std::vector<std::size_t> ends;       ///< where each cluster ends among them
};

/// At most `clusters` clusters of packs such that durations have the least squared distances from their cluster's mean.
/// O(clusters * n^2).
[[nodiscard]] inline PackClusters cluster_packs(std::span<const double> durations, std::size_t clusters) {
  PackClusters out{falling_packs(durations), {}};
  const std::size_t n = durations.size();
  std::vector<double> sum(n + 1, 0.0), squares(n + 1, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    const double own = durations[out.falling[i]];
    sum[i + 1] = sum[i] + own;
    squares[i + 1] = squares[i] + own * own;
  }
  const auto spread = [&](std::size_t begin, std::size_t end) {
    const double total = sum[end] - sum[begin];
    return squares[end] - squares[begin] - total * total / static_cast<double>(end - begin);
  };
  clusters = std::min(clusters, n);
  std::vector<double> least(n + 1, std::numeric_limits<double>::infinity());
  least[0] = 0.0;
  std::vector<std::vector<std::size_t>> begin(clusters, std::vector<std::size_t>(n + 1, 0));
  for (std::size_t c = 0; c < clusters; ++c) {
    for (std::size_t end = n; end > c; --end) {
      least[end] = std::numeric_limits<double>::infinity();
      for (std::size_t from = c; from < end; ++from) {
        const double own = least[from] + spread(from, end);
        if (own >= least[end]) continue;
        least[end] = own;
        begin[c][end] = from;
      }
    }
    least[c] = std::numeric_limits<double>::infinity();
  }
  for (std::size_t c = clusters, end = n; c-- > 0; end = begin[c][end]) out.ends.push_back(end);
  std::reverse(out.ends.begin(), out.ends.end());
  return out;
}

/// All orders of clusters of packs of similar durations, in each of which packs stand by falling duration (DynaPipe's
/// permutations; Jiang et al., EuroSys 2024, section 5). O(clusters * n^2 + clusters! * n).
[[nodiscard]] inline std::vector<std::vector<std::uint32_t>> cluster_orders(std::span<const double> durations,
                                                                            std::size_t clusters) {
  const PackClusters all = cluster_packs(durations, clusters);
  std::vector<std::size_t> turn(all.ends.size());
  std::iota(turn.begin(), turn.end(), std::size_t{0});
  std::vector<std::vector<std::uint32_t>> orders;
  do {
    std::vector<std::uint32_t>& order = orders.emplace_back();
    for (const std::size_t c : turn)
      order.insert(order.end(),
                   all.falling.begin() + static_cast<std::ptrdiff_t>(c == 0 ? 0 : all.ends[c - 1]),
                   all.falling.begin() + static_cast<std::ptrdiff_t>(all.ends[c]));
  } while (std::next_permutation(turn.begin(), turn.end()));
  return orders;
}

/// Shortens a schedule by `cluster_orders` and `pack_orders` of its packs, in PackFlow's order of passes and in the eager one.
/// @pre as for `shorten_by_orders`. Complexity: that, for clusters! + 3 orders and both options.
inline void shorten_by_cluster_orders(Schedule& best, std::size_t clusters, Scheduler& scheduler) {
  const std::array options{ScheduleOptions{.order = PassOrder::packflow},
                           ScheduleOptions{.order = PassOrder::eager}};
  const std::vector<double> durations = pack_durations(best);
  auto orders = cluster_orders(durations, clusters);
  for (auto& order : pack_orders(durations)) orders.push_back(std::move(order));
  shorten_by_orders(best, orders, options, scheduler);
}

/// The same for schedules that run at the same time: the slowest first, as long as that makes the last one end sooner.
/// @param enough stops when one of them takes this many seconds or longer even so: the result is then of no use.
inline double shorten_slowest_by_cluster_orders(std::span<Schedule> schedules, std::size_t clusters,
                                                double enough, Scheduler& scheduler) {
  std::vector<std::size_t> slowest(schedules.size());
  std::iota(slowest.begin(), slowest.end(), std::size_t{0});
  std::stable_sort(slowest.begin(), slowest.end(),
                   [&](auto a, auto b) { return schedules[a].seconds > schedules[b].seconds; });
  double seconds = 0.0;
  for (const std::size_t i : slowest) {
    if (schedules[i].seconds > seconds && seconds < enough)
      shorten_by_cluster_orders(schedules[i], clusters, scheduler);
    seconds = std::max(seconds, schedules[i].seconds);
  }
  return seconds;
}

}  // namespace slimpack
