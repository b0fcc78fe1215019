#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/packing.hpp"
#include "slimpack/schedule/schedule.hpp"

namespace slimpack {

/// Schedules of packs of whole samples on equal groups of pipelines.
struct WholeSamplePlan {
  std::size_t share = 0;            ///< pipelines that run each pack together; 0: nothing fits
  std::vector<Schedule> schedules;  ///< of groups of `share` neighbouring pipelines
  double seconds = std::numeric_limits<double>::infinity();
};

/// Numbers of pipelines that can run each pack together: divisors of `pipelines` for which there are prices.
[[nodiscard]] inline std::vector<std::size_t> context_parallel_shares(std::size_t pipelines,
                                                                      const GroupPrices& prices) {
  std::vector<std::size_t> shares;
  for (std::size_t share = 1; share <= pipelines; ++share) {
    if (pipelines % share == 0 && prices.allows(share)) shares.push_back(share);
  }
  return shares;
}

/// The packs of group `group` where packs are dealt to `groups` groups in turn, each run by `share` pipelines.
[[nodiscard]] inline PackRows dealt_packs(const Packs& all, std::size_t group, std::size_t groups,
                                          std::size_t share) {
  Packs own;
  Ragged<std::uint32_t> members;
  for (std::size_t k = group; k < all.size(); k += groups) {
    for (const Slice& slice : all[k]) own.add(slice);
    own.close();
    for (std::uint32_t i = 0; i < share; ++i) members.add(i);
    members.close();
  }
  return in_rows(std::move(own), std::move(members), share);
}

/// Best-fit-decreasing packs of whole samples, at most `context` tokens each, dealt in turn to groups of pipelines, with
/// the size of groups that gives the shortest step. Both passes have the same packs.
/// @pre no sample is longer than `context`. @param shares sizes of groups to try, as `context_parallel_shares` gives them.
/// @param most gives up plans that take this long or longer.
/// O(n log n + divisors(pipelines) * packs * stages).
[[nodiscard]] inline WholeSamplePlan plan_whole_samples(
    std::span<const Tokens> lengths, Tokens context, std::size_t pipelines,
    std::span<const std::size_t> shares, Scheduler& scheduler, const ScheduleOptions& options,
    double most = std::numeric_limits<double>::infinity()) {
  const Tokens all = std::accumulate(lengths.begin(), lengths.end(), Tokens{0});
  const Packing packing = best_fit_decreasing(lengths, std::min(context, all));
  std::vector<std::vector<SampleId>> bins(packing.load.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) bins[packing.bin[i]].push_back(static_cast<SampleId>(i));
  Packs packs;
  for (const std::vector<SampleId>& bin : bins) {
    for (const SampleId id : bin) packs.add({id, 0, lengths[id]});
    packs.close();
  }
  WholeSamplePlan best;
  best.seconds = most;
  for (const std::size_t share : shares) {
    const std::size_t groups = pipelines / share;
    std::vector<Schedule> schedules(groups);
    double seconds = 0.0;
    for (std::size_t g = 0; g < groups && seconds < best.seconds; ++g) {
      schedules[g].pipelines = share;
      schedules[g].forward = schedules[g].backward = dealt_packs(packs, g, groups, share);
      scheduler(schedules[g], options, best.seconds);
      seconds = std::max(seconds, schedules[g].seconds);
    }
    if (seconds < best.seconds) best = {share, std::move(schedules), seconds};
  }
  if (best.share == 0) best.seconds = std::numeric_limits<double>::infinity();
  return best;
}

}  // namespace slimpack
