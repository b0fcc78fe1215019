#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/planners/best_of.hpp"
#include "slimpack/planners/distribution_decisions.hpp"
#include "slimpack/planners/equal_packs.hpp"
#include "slimpack/planners/tile_search.hpp"
#include "slimpack/schedule/full_pack.hpp"
#include "slimpack/slicing/cut_seconds.hpp"

namespace slimpack {

namespace detail {

/// How packs are ordered and fitted into memory while the options' candidates are tried.
[[nodiscard]] inline ScheduleOptions order_of(const SlimPackOptions& options) {
  ScheduleOptions out{.eager_if_faster = options.inject,
                      .each_pack = options.recompute_each_pack,
                      .offload = options.offload};
  if (options.inject) return out;
  out.order = PassOrder::steady;
  out.fit = FitPolicy::recompute;
  return out;
}

/// `SlimPackSearch::deciding_tile`, halved until each stage of a pipeline has enough tiles.
[[nodiscard]] inline Tokens deciding_tile(std::span<const Tokens> lengths, std::size_t all_stages,
                                          const SlimPackSearch& search) {
  const double tokens =
      std::accumulate(lengths.begin(), lengths.end(), 0.0) / static_cast<double>(all_stages);
  Tokens tile = search.deciding_tile;
  while (tile > 1 && static_cast<double>(search.tiles_per_stage * tile) > tokens) tile /= 2;
  return tile;
}

/// Tries distributions of samples over pipelines, each with its best schedules, and finds the best.
class DistributionCandidates {
 public:
  DistributionCandidates(std::span<const Tokens> lengths, std::size_t pipelines, GroupPrices& prices,
                         const Memory& memory, const SlimPackOptions& options)
      : options_(options),
        stages_(memory.stages()),
        deciding_tile_(deciding_tile(lengths, pipelines * stages_, options.search)),
        distribute_(lengths, prices, pipelines,
                    {.group_sizes = options.group_sizes,
                     .memory_tokens = most_sample_tokens(memory, true),
                     .slices_per_pack = options.search.slices_per_pack,
                     .fine_step = options.search.fine_step,
                     .coarse_step = options.search.coarse_step}),
        groups_(lengths, prices, memory,
                {.packs = options.packs,
                 .tile = deciding_tile_,
                 .exact = options.equal_packs,
                 .enough_packs = options.search.enough_packs,
                 .fill = options.fill,
                 .leeway = options.search.leeway,
                 .schedule = order_of(options)}),
        search_(groups_, options.search),
        decided_(options, most_sample_tokens(memory, false), distribute_, search_),
        finished_(groups_, distribute_.longest(), options),
        equal_packs_(distribute_, search_, decided_, finished_, options.search.hopeless) {
    distribute_.require_memory();
    const Prices& alone = prices.alone();
    const double constants = alone.pack_seconds(0, Pass::forward) + alone.pack_seconds(0, Pass::backward);
    const double each = constants + stage_cut_seconds(lengths, alone);
    const std::size_t promising = promising_packs(stages_, distribute_.mean_seconds(), each);
    const std::size_t expected = options.packs > 0 ? options.packs : promising;
    distribute_.expect_packs(expected);
    equal_packs_.expect(constants, expected,
                        std::max(options.search.most_equal_packs * stages_, 2 * promising));
  }

  /// The best plan of all candidates; its seconds are infinite if none fits. All plans share the decisions of
  /// `deciding_tile`, of uncut samples and, unless numbers of packs have to be equal, of every second tile between these. Where
  /// the first are starved, each coarser tile decides with equal care. If nothing fits, finer tiles decide as well. The
  /// coarsest tile comes first, so that a plan with a coarser tile goes through the same steps. A search that is not thorough ends
  /// with the first decisions.
  [[nodiscard]] DistributionPlan operator()() {
    DistributionPlan best;
    const bool thorough = options_.search.thorough;
    const bool is_starved = search_with(deciding_tile_, best, thorough ? Care::full : Care::quick);
    if (!thorough) return best;
    const std::vector<Tokens> tiles = finished_.tiles();
    for (std::size_t i = tiles.size(); i-- > 0 && tiles[i] > deciding_tile_;) {
      const bool every_second = (tiles.size() - 1 - i) % 2 == 0, uncut = i + 1 == tiles.size();
      if (is_starved || (uncut && options_.equal_packs)) {
        search_with(tiles[i], best);
      } else if (every_second && !options_.equal_packs) {
        decide_with(tiles[i], best, Care::quick);
      }
    }
    const bool none_fits = best.seconds == infinite;
    if (none_fits) equal_packs_.forget();
    for (const Tokens tile : tiles) {
      if (none_fits && tile < deciding_tile_) search_with(tile, best);
    }
    return best;
  }

  [[nodiscard]] Scheduler& scheduler() { return groups_.scheduler(); }
  /// Of the first distribution that was decided on. Does not depend on the plan's tile and boundaries.
  [[nodiscard]] double decided_seconds() const { return decided_seconds_; }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Decides on distributions and numbers of packs with a tile; where that is starved, on equal numbers of packs as well. What is
  /// better than `best` replaces it. @param care less than full leaves that out. @returns whether what was decided is starved.
  bool search_with(Tokens tile, DistributionPlan& best, Care care = Care::full) {
    const bool all_equal = options_.equal_packs && options_.packs == 0;
    groups_.options().tile = tile;
    search_.use(Care::quick);
    const bool is_starved = !all_equal && decide_with(tile, best, care);
    if (all_equal || (is_starved && care == Care::full && options_.packs == 0))
      improve(equal_packs_(merges(), best.seconds), best);
    return is_starved;
  }

  /// Decides on distributions and numbers of packs with a tile. What is better than `best` replaces it.
  /// @param care that is taken where memory limits what was decided. @returns whether that is starved.
  bool decide_with(Tokens tile, DistributionPlan& best, Care care = Care::full) {
    groups_.options().tile = tile;
    search_.use(Care::quick);
    bool is_starved = false;
    for (const bool merge : {true, false}) {
      if (merge ? !merges() : merges() && (!options_.search.thorough || unmerged_takes(best.seconds)))
        continue;
      std::vector<DistributionPlan> decided = decided_(merge, infinite);
      const double seconds = decided.empty() ? infinite : decided.front().seconds;
      if (merge == merges() && tile == deciding_tile_) decided_seconds_ = seconds;
      is_starved = is_starved || (merge == merges() ? starved(seconds)
                                                    : decided.empty() || !finished_.fits(decided.front()));
      finish(std::move(decided), merge, care, best);
    }
    return is_starved;
  }

  /// Finishes what was decided quickly; what is better than `best` replaces it. If memory makes the first of them take longer
  /// than with enough of it, what is decided with full care is finished as well, if `care` asks for that.
  /// @param merge whether samples are merged to save time.
  void finish(std::vector<DistributionPlan> decided, bool merge, Care care, DistributionPlan& best) {
    if (care == Care::full && !decided.empty() && memory_limits(decided.front())) {
      search_.use(Care::full);
      for (DistributionPlan& full : decided_(merge, infinite)) {
        const auto alike = [&](const DistributionPlan& known) { return decided_alike(known, full); };
        if (std::ranges::none_of(decided, alike)) decided.push_back(std::move(full));
      }
      search_.use(Care::quick);
    }
    for (DistributionPlan& plan : decided) improve(finished_(std::move(plan), best.seconds), best);
  }

  /// Whether memory makes what was decided take longer than with enough of it.
  [[nodiscard]] bool memory_limits(const DistributionPlan& decided) const {
    return decided.seconds > options_.search.limited * decided.unlimited_seconds();
  }

  /// Whether what was decided takes so long that other decisions may be far better. A plan that could merge but may not is
  /// starved only if nothing fits; then one that may merge is also starved.
  [[nodiscard]] bool starved(double seconds) const {
    const bool restricted = !options_.merge && distribute_.largest_group() > 1;
    return restricted ? seconds == infinite : seconds > options_.search.starved * distribute_.mean_seconds();
  }

  [[nodiscard]] bool merges() const { return options_.merge && distribute_.largest_group() > 1; }

  /// Whether the distribution that merges no sample to save time surely takes `most` seconds or longer: the first group has
  /// the longest sample, and if memory holds that, samples are not distributed again.
  bool unmerged_takes(double most) {
    const std::vector<SampleGroup> groups = distribute_({.merge = false});
    if (groups.empty()) return true;
    groups_.load(groups.front());
    const GroupWork& work = groups_.work();
    if ((options_.recompute_each_pack ? work.seconds() : work.limited_seconds()) < most) return false;
    GroupPlan any;
    search_.search(std::numeric_limits<double>::max(), any);
    return groups_.fits_all_members(any);
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
  double decided_seconds_ = infinite;
};

}  // namespace detail

}  // namespace slimpack
