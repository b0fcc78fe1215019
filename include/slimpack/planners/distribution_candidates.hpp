#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/planners/distribution_decisions.hpp"
#include "slimpack/planners/tile_search.hpp"
#include "slimpack/slicing/cut_seconds.hpp"

namespace slimpack {

namespace detail {

/// Tries distributions of samples over pipelines, each with its best schedules, and finds the best.
class DistributionCandidates {
 public:
  DistributionCandidates(std::span<const Tokens> lengths, std::size_t pipelines, GroupPrices& prices,
                         const Memory& memory, const SlimPackOptions& options)
      : options_(options),
        stages_(memory.stages()),
        constants_(prices.alone().pack_seconds(0, Pass::forward) +
                   prices.alone().pack_seconds(0, Pass::backward)),
        deciding_tile_(deciding_tile(lengths, pipelines)),
        distribute_(lengths, prices, pipelines,
                    {.group_sizes = options.group_sizes, .memory_tokens = most_sample_tokens(memory, true)}),
        groups_(lengths, prices, memory,
                {.packs = options.packs, .tile = deciding_tile_, .exact = options.equal_packs}),
        decided_(options, most_sample_tokens(memory, false), distribute_, groups_),
        finished_(groups_, {.tile = options.tile,
                            .deciding_tile = deciding_tile_,
                            .longest = distribute_.longest(),
                            .tiles_per_pack = options.search.tiles_per_pack,
                            .finest_last = round_tokens(options.search.deciding_tile, prices.alone().ranks()),
                            .worse = options.search.worse,
                            .asymmetric = options.asymmetric,
                            .packs_given = options.packs > 0}) {
    distribute_.require_memory();
    const double cut = mean_cut_seconds(lengths, [&](Tokens begin, Tokens end) {
      const Prices& alone = prices.alone();
      return (alone.pipeline_seconds(begin, end, Pass::forward) +
              alone.pipeline_seconds(begin, end, Pass::backward)) /
             static_cast<double>(stages_);
    });
    promising_packs_ = promising_packs(stages_, distribute_.mean_seconds(), constants_ + cut);
    distribute_.expect_packs(options.packs > 0 ? options.packs : promising_packs_);
  }

  /// The best plan of all candidates; its seconds are infinite if none fits. Decided with one tile for all plans; if that
  /// fits with none of the plan's tiles, with each of these.
  [[nodiscard]] DistributionPlan operator()() {
    DistributionPlan best = decided_with(deciding_tile_);
    if (best.seconds < infinite) return best;
    for (const Tokens tile : finished_.tiles()) {
      DistributionPlan plan = decided_with(tile);
      if (plan.seconds < best.seconds) best = std::move(plan);
    }
    return best;
  }

  [[nodiscard]] Scheduler& scheduler() { return groups_.scheduler(); }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// @param tile with which the distribution and its numbers of packs are chosen.
  DistributionPlan decided_with(Tokens tile) {
    groups_.options().tile = tile;
    if (options_.equal_packs && options_.packs == 0) return with_equal_packs();
    DistributionPlan merged, best;
    if (merges()) {
      merged = decided_.merged(infinite);
      best = finished_(merged);
    }
    DistributionPlan plan = unmerged(best.seconds);
    if (plan.seconds < best.seconds) best = std::move(plan);
    if (options_.packs > 0 || !starved(merges() ? merged.seconds : best.seconds)) return best;
    DistributionPlan equal = with_equal_packs();
    return equal.seconds < best.seconds ? equal : best;
  }

  /// Tokens of which context-parallel ranks hold equal shares; slices that are multiples of them are balanced best.
  [[nodiscard]] static Tokens round_tokens(Tokens chunk, std::int32_t ranks) {
    return ranks > 1 ? 2 * ranks * chunk : chunk;
  }

  /// Whether a plan takes so long that equal numbers of packs may be better. Without the right to merge, only where nothing
  /// fits, so that a plan with that right is no longer.
  [[nodiscard]] bool starved(double seconds) const {
    const bool may_merge = options_.merge || distribute_.largest_group() == 1;
    return seconds > (may_merge ? options_.search.starved * distribute_.mean_seconds()
                                : std::numeric_limits<double>::max());
  }

  [[nodiscard]] bool merges() const { return options_.merge && distribute_.largest_group() > 1; }

  /// The best number of packs for all pipelines. Which are tried does not depend on what a plan's options make of them.
  DistributionPlan with_equal_packs() {
    std::vector<DistributionPlan> decided;
    double best = infinite;
    std::size_t best_packs = 1;
    const GroupSearch::Options before = groups_.options();
    groups_.options().exact = true;
    const auto try_packs = [&](double wanted) {
      const auto packs = static_cast<std::size_t>(std::round(wanted));
      if (distribute_.mean_seconds() + wanted * constants_ >= best) return;
      groups_.options().packs = packs;
      for (DistributionPlan& plan : with_packs(best)) {
        if (plan.seconds < best) best_packs = packs;
        best = std::min(best, plan.seconds);
        decided.push_back(std::move(plan));
      }
    };
    for (std::size_t packs = 1; packs <= most_equal_packs(); packs *= 2)
      try_packs(static_cast<double>(packs));
    for (const double step : {0.5, 0.25}) {
      const auto middle = static_cast<double>(best_packs);
      for (const double factor : {std::exp2(-step), std::exp2(step)})
        try_packs(std::max(1.0, middle * factor));
    }
    groups_.options() = before;
    std::stable_sort(
        decided.begin(), decided.end(),
        [](const DistributionPlan& a, const DistributionPlan& b) { return a.seconds < b.seconds; });
    DistributionPlan finished;
    for (DistributionPlan& plan : decided) {
      DistributionPlan out = finished_(std::move(plan), finished.seconds);
      if (out.seconds < finished.seconds) finished = std::move(out);
    }
    return finished;
  }

  /// Distributions with as many packs on all pipelines as the groups' options say. @param most gives up what looks longer.
  std::vector<DistributionPlan> with_packs(double most) {
    std::vector<DistributionPlan> plans;
    if (merges()) plans.push_back(decided_.merged(most));
    const double least = plans.empty() ? most : std::min(most, plans.front().seconds);
    const std::vector<SampleGroup> groups = distribute_({.merge = false});
    if (groups.empty()) return plans;
    const GroupPlan first = searched(groups.front());
    if (!first.schedule.fits() || first.schedule.seconds < least) plans.push_back(decided_.unmerged(most));
    return plans;
  }

  /// Most packs to try for equal numbers of packs: 32 for each stage, or twice what constants suggest if that is more.
  [[nodiscard]] std::size_t most_equal_packs() const { return std::max(32 * stages_, 2 * promising_packs_); }

  /// `SlimPackSearch::deciding_tile`, halved until each stage of a pipeline has enough tiles.
  [[nodiscard]] Tokens deciding_tile(std::span<const Tokens> lengths, std::size_t pipelines) const {
    const double tokens =
        std::accumulate(lengths.begin(), lengths.end(), 0.0) / static_cast<double>(pipelines * stages_);
    Tokens tile = options_.search.deciding_tile;
    while (tile > 1 && static_cast<double>(options_.search.tiles_per_stage * tile) > tokens) tile /= 2;
    return tile;
  }

  /// The best plan that merges no sample to save time. @param most gives up if that takes this long or longer; the first
  /// group, which has the longest sample, is checked first.
  DistributionPlan unmerged(double most) {
    const std::vector<SampleGroup> groups = distribute_({.merge = false});
    if (groups.empty() || (most < infinite && takes(groups.front(), most))) return {};
    return finished_(decided_.unmerged(most), most);
  }

  /// Whether a group takes `most` seconds or longer, searched on its own. One that memory refuses as it is does not count.
  bool takes(const SampleGroup& group, double most) {
    groups_.load(group);
    const double hopeless = groups_.work_seconds() < most ? options_.search.outdone * most : most;
    GroupPlan plan;
    groups_.search(most, plan, hopeless);
    const double seconds = plan.schedule.seconds;
    return plan.schedule.fits() && seconds >= most &&
           (plan.schedule.unlimited >= hopeless || finished_.takes(group, plan, most));
  }

  [[nodiscard]] GroupPlan searched(const SampleGroup& group) {
    GroupPlan plan;
    groups_.load(group);
    groups_.search(0.0, plan);
    return plan;
  }

  SlimPackOptions options_;
  std::size_t stages_;
  double constants_;  // of a forward and a backward pack
  std::size_t promising_packs_ = 1;
  Tokens deciding_tile_;
  Distributor distribute_;
  GroupSearch groups_;
  DistributionDecisions decided_;
  TileSearch finished_;
};

}  // namespace detail

}  // namespace slimpack
