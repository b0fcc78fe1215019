#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/planners/distribution_decisions.hpp"
#include "slimpack/planners/equal_packs.hpp"
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
        deciding_tile_(deciding_tile(lengths, pipelines)),
        distribute_(lengths, prices, pipelines,
                    {.group_sizes = options.group_sizes, .memory_tokens = most_sample_tokens(memory, true)}),
        groups_(lengths, prices, memory,
                {.packs = options.packs, .tile = deciding_tile_, .exact = options.equal_packs}),
        search_(groups_),
        decided_(options, most_sample_tokens(memory, false), distribute_, search_),
        finished_(groups_, {.tile = options.tile,
                            .longest = distribute_.longest(),
                            .tiles_per_pack = options.search.tiles_per_pack,
                            .asymmetric = options.asymmetric,
                            .packs_given = options.packs > 0}),
        equal_packs_(distribute_, search_, decided_, finished_) {
    distribute_.require_memory();
    const Prices& alone = prices.alone();
    const double constants = alone.pack_seconds(0, Pass::forward) + alone.pack_seconds(0, Pass::backward);
    const double cut = mean_cut_seconds(lengths, [&](Tokens begin, Tokens end) {
      return (alone.pipeline_seconds(begin, end, Pass::forward) +
              alone.pipeline_seconds(begin, end, Pass::backward)) /
             static_cast<double>(stages_);
    });
    const std::size_t promising = promising_packs(stages_, distribute_.mean_seconds(), constants + cut);
    const std::size_t expected = options.packs > 0 ? options.packs : promising;
    distribute_.expect_packs(expected);
    equal_packs_.expect(constants, expected, std::max(32 * stages_, 2 * promising));
  }

  /// The best plan of all candidates; its seconds are infinite if none fits. Decided with one tile for all plans; where that
  /// is starved, with each of the plan's coarser tiles as well; and where nothing fits, with its finer ones.
  [[nodiscard]] DistributionPlan operator()() {
    DistributionPlan best;
    const bool is_starved = decide_with(deciding_tile_, best) || best.seconds == infinite;
    const std::vector<Tokens> tiles = finished_.tiles();
    for (const Tokens tile : tiles) {
      if (is_starved && tile > deciding_tile_) decide_with(tile, best);
    }
    for (const Tokens tile : tiles) {
      if (best.seconds == infinite && tile < deciding_tile_) decide_with(tile, best);
    }
    return best;
  }

  [[nodiscard]] Scheduler& scheduler() { return groups_.scheduler(); }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Decides on distributions and numbers of packs with a tile. What is better than `best` replaces it. @returns whether what
  /// was decided is starved, which depends neither on the plan's own tile nor on its boundaries.
  bool decide_with(Tokens tile, DistributionPlan& best) {
    groups_.options().tile = tile;
    const auto improve = [&](DistributionPlan plan) {
      if (plan.seconds < best.seconds) best = std::move(plan);
    };
    if (options_.equal_packs && options_.packs == 0) {
      improve(equal_packs_(merges()));
      return false;
    }
    DistributionPlan decided = merges() ? decided_.merged(infinite) : decided_.unmerged(infinite);
    const bool is_starved = starved(decided.seconds);
    improve(finished_(std::move(decided), best.seconds));
    if (merges())
      improve(is_starved ? finished_(decided_.unmerged(infinite), best.seconds) : unmerged(best.seconds));
    if (options_.packs == 0 && is_starved) improve(equal_packs_(merges()));
    return is_starved;
  }

  /// Whether what was decided takes so long that other decisions may be far better. Without the right to merge, only where
  /// nothing fits, so that a plan with that right is no longer.
  [[nodiscard]] bool starved(double seconds) const {
    const bool may_merge = options_.merge || distribute_.largest_group() == 1;
    return seconds > (may_merge ? options_.search.starved * distribute_.mean_seconds()
                                : std::numeric_limits<double>::max());
  }

  [[nodiscard]] bool merges() const { return options_.merge && distribute_.largest_group() > 1; }

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
    if (groups_.work().limited_seconds() >= most) return fits();
    const double hopeless = groups_.work().seconds() < most ? options_.search.outdone * most : most;
    GroupPlan plan;
    search_.search(most, plan, hopeless);
    const double seconds = plan.schedule.seconds;
    if (!plan.schedule.fits() || seconds < most) return false;
    return plan.schedule.unlimited >= hopeless || seconds >= options_.search.hopeless * most ||
           finished_.takes(group, plan, most);
  }

  /// Whether memory holds the loaded group.
  bool fits() {
    GroupPlan any;
    search_.search(infinite, any);
    return any.schedule.fits();
  }

  SlimPackOptions options_;
  std::size_t stages_;
  Tokens deciding_tile_;
  Distributor distribute_;
  GroupScheduler groups_;
  GroupSearch search_;
  DistributionDecisions decided_;
  TileSearch finished_;
  EqualPacks equal_packs_;
};

}  // namespace detail

}  // namespace slimpack
