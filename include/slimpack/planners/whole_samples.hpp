#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/partition/packing.hpp"
#include "slimpack/planners/best_of.hpp"
#include "slimpack/schedule/scheduler.hpp"

namespace slimpack {

/// Schedules of packs of whole samples on equal groups of pipelines.
struct WholeSamplePlan {
  std::size_t pipelines_per_pack = 0;  ///< these run each pack together; 0: nothing fits
  std::vector<Schedule> schedules;     ///< of groups of `pipelines_per_pack` neighbouring pipelines
  double seconds = std::numeric_limits<double>::infinity();
};

/// Numbers of pipelines that can run each pack together: divisors of `pipelines` for which there are prices.
[[nodiscard]] inline std::vector<std::size_t> context_parallel_group_sizes(std::size_t pipelines,
                                                                           const GroupPrices& prices) {
  std::vector<std::size_t> group_sizes;
  for (std::size_t size = 1; size <= pipelines; ++size) {
    if (pipelines % size == 0 && prices.allows(size)) group_sizes.push_back(size);
  }
  return group_sizes;
}

/// The context that a planner packs up to. @throws InvalidInput if a sample is longer.
[[nodiscard]] inline Tokens pack_context(std::span<const Tokens> lengths, Tokens given) {
  const auto longest = std::max_element(lengths.begin(), lengths.end());
  require(given == 0 || *longest <= given, "sample ", longest - lengths.begin(), " has ", *longest,
          " tokens; expected at most the context of ", given);
  return given > 0 ? given : *longest;
}

/// Lengths of packs that a careful user tries: the longest sample, the context, and between them steps of a fourth root of two.
/// Packs hold no more than the batch does. @pre no sample is longer than `context`. Ascending, O(samples + log(context)).
[[nodiscard]] inline std::vector<Tokens> useful_pack_lengths(std::span<const Tokens> lengths,
                                                             Tokens context) {
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  const Tokens most = std::min(context, std::accumulate(lengths.begin(), lengths.end(), Tokens{0}));
  std::vector<Tokens> useful;
  for (int step = 0;; ++step) {
    const auto tokens = static_cast<Tokens>(static_cast<double>(longest) * std::exp2(step / 4.0));
    if (tokens >= most) break;
    if (useful.empty() || tokens > useful.back()) useful.push_back(tokens);
  }
  useful.push_back(most);
  return useful;
}

/// Schedules packs of whole samples on equal groups of pipelines. Both passes have the same packs.
/// @param packs [group]. @param most gives up if a group takes this long or longer.
/// @returns no schedules if it gave up, or the packs of a group don't fit. Complexity: that of `Scheduler`, for each group.
[[nodiscard]] inline WholeSamplePlan schedule_on_groups(
    std::vector<Packs> packs, std::size_t pipelines_per_pack, Scheduler& scheduler,
    const ScheduleOptions& options, double most = std::numeric_limits<double>::infinity()) {
  WholeSamplePlan plan{pipelines_per_pack, std::vector<Schedule>(packs.size()), 0.0};
  for (std::size_t g = 0; g < packs.size(); ++g) {
    Schedule& each = plan.schedules[g];
    each.pipelines = pipelines_per_pack;
    each.forward = each.backward = in_rows(std::move(packs[g]), pipelines_per_pack);
    scheduler(each, options, most);
    if (!each.fits()) return {};
    plan.seconds = std::max(plan.seconds, each.seconds);
  }
  return plan;
}

/// Best-fit-decreasing packs of whole samples, at most `length` tokens each, dealt in turn to groups of pipelines, with
/// the size of groups that gives the shortest step. Both passes have the same packs.
/// @pre no sample is longer than `length`. @param group_sizes to try, as `context_parallel_group_sizes` gives them.
/// @param most gives up plans that take this long or longer.
/// O(n log n + divisors(pipelines) * packs * stages).
[[nodiscard]] inline WholeSamplePlan plan_whole_samples(
    std::span<const Tokens> lengths, Tokens length, std::size_t pipelines,
    std::span<const std::size_t> group_sizes, Scheduler& scheduler, const ScheduleOptions& options,
    double most = std::numeric_limits<double>::infinity()) {
  const Packing packing = best_fit_decreasing(lengths, length);
  std::vector<std::vector<SampleId>> bins(packing.load.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) bins[packing.bin[i]].push_back(static_cast<SampleId>(i));
  Packs packs;
  for (const std::vector<SampleId>& bin : bins) {
    for (const SampleId id : bin) packs.add({id, 0, lengths[id]});
    packs.close();
  }
  WholeSamplePlan best;
  best.seconds = most;
  for (const std::size_t pipelines_per_pack : group_sizes) {
    const std::size_t groups = pipelines / pipelines_per_pack;
    std::vector<std::uint32_t> group(packs.size());
    for (std::size_t k = 0; k < group.size(); ++k) group[k] = static_cast<std::uint32_t>(k % groups);
    detail::improve(schedule_on_groups(packs_by_bin(packs, group, groups), pipelines_per_pack, scheduler,
                                       options, best.seconds),
                    best);
  }
  if (best.pipelines_per_pack == 0) best.seconds = std::numeric_limits<double>::infinity();
  return best;
}

/// The same with the length of packs that gives the shortest step, of all useful ones up to the context.
[[nodiscard]] inline WholeSamplePlan best_whole_samples(
    std::span<const Tokens> lengths, Tokens context, std::size_t pipelines,
    std::span<const std::size_t> group_sizes, Scheduler& scheduler, const ScheduleOptions& options,
    double most = std::numeric_limits<double>::infinity()) {
  WholeSamplePlan best;
  for (const Tokens length : useful_pack_lengths(lengths, context)) {
    detail::improve(plan_whole_samples(lengths, length, pipelines, group_sizes, scheduler, options,
                                       std::min(most, best.seconds)),
                    best);
  }
  return best;
}

}  // namespace slimpack
