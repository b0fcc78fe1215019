#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "slimpack/planners/slimpack_options.hpp"
#include "slimpack/planners/tried_cuts.hpp"
#include "slimpack/schedule/group_scheduler.hpp"

namespace slimpack {

/// Looks for the best way to cut the group of pipelines that was loaded last. Does not try again what was too slow before.
class GroupCutSearch {
 public:
  /// What was decided for a group.
  struct Decided {
    GroupCut cut;
    bool memory_bound = false;  ///< whether memory limits that
  };

  /// @param groups has to outlive this.
  GroupCutSearch(GroupScheduler& groups, const SlimPackOptions& options)
      : options_(options), groups_(groups) {}

  /// Chooses the group that later calls are about. O(samples of the group).
  void load(const SampleGroup& group) {
    groups_.load(group);
    tried_.load(group);
  }

  /// Schedules the loaded group as `cut` says. The seconds are infinite if the options do not allow such a cut, or if it does
  /// not fit, or takes `most` seconds or longer.
  void schedule(const GroupCut& cut, double most, GroupPlan& out) {
    out = {};
    if (!allows(cut) || tried_.least_seconds(cut) >= most) return;
    groups_.schedule(cut, most, out);
    tried_.least_seconds(cut) = std::min(most, out.schedule.seconds);
  }

  /// The tile of the options, then tiles twice, four times, … as coarse. The last one is as long as the longest sample, so that
  /// no sample is cut. Only the first if the search is not thorough, or the number of packs is given: coarser tiles can yield fewer.
  [[nodiscard]] std::vector<Tokens> tiles(Tokens longest) const {
    std::vector<Tokens> tiles{std::clamp(longest, Tokens{1}, options_.tile)};
    const bool coarser = options_.search.thorough && !packs_given();
    while (coarser && tiles.back() < longest) tiles.push_back(std::min(2 * tiles.back(), longest));
    return tiles;
  }

  /// Whether the options allow this cut.
  [[nodiscard]] bool allows(const GroupCut& cut) const {
    const bool own = packs_given() ? cut.tile == options_.tile : uncut(cut) || cut.tile % options_.tile == 0;
    return own && (options_.asymmetric || cut.backward != BackwardPacks::own);
  }

  /// The best way to cut the loaded group, of those that take less than `most` seconds; seconds are infinite if there
  /// is none. @param enough stops at the first tile with which the group takes no longer than this. @param likely the
  /// tile that is tried first.
  GroupPlan operator()(Decided decided, double most, double enough, Tokens likely) {
    GroupPlan best;
    best.schedule.seconds = most;
    enough = std::min(enough, std::nextafter(most, 0.0));  // `most` itself is not a plan
    const auto found = [&] { return best.schedule.seconds < most; };
    std::vector<Tokens> order = tiles(groups_.work().longest());
    const auto first = std::find(order.begin(), order.end(), likely);
    if (first != order.end()) std::rotate(order.begin(), first, first + 1);
    for (const Tokens tile : order) {
      decided.cut.tile = tile;
      improve_with(decided, enough, best);
      if (best.schedule.seconds <= enough) return best;
    }
    if (!found() && most == infinite && !decided.cut.exact && !packs_given())
      improve_with_more_packs(decided, best);
    if (!found()) best.schedule.seconds = infinite;
    return best;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Whether the user gave the number of packs, which is kept then.
  [[nodiscard]] bool packs_given() const { return options_.packs > 0; }

  /// Whether no sample of the loaded group is cut.
  [[nodiscard]] bool uncut(const GroupCut& cut) const { return cut.tile >= groups_.work().longest(); }

  /// Tries more and more packs, with which less memory is held, until some fit. @pre nothing that was decided fits.
  void improve_with_more_packs(Decided decided, GroupPlan& best) {
    for (int i = 0; i < options_.search.more_rounds && !best.schedule.fits(); ++i) {
      decided.cut.packs *= options_.search.more_packs;
      for (const Tokens tile : tiles(groups_.work().longest())) {
        decided.cut.tile = tile;
        try_packs(decided.cut.packs, decided, 0.0, best);
      }
    }
  }

  /// Whether packs have few tiles, or samples are not cut at all.
  [[nodiscard]] bool has_few_tiles(const GroupCut& cut) const {
    const double tiles = static_cast<double>(groups_.work().tokens()) / static_cast<double>(cut.tile);
    return uncut(cut) || tiles < options_.search.tiles_per_pack * static_cast<double>(cut.packs);
  }

  /// Tries all kinds of backward boundaries with one tile, and other numbers of packs, until the group takes no longer
  /// than `enough`: more unless memory limits what was decided; fewer, and one for each tile, where packs have few tiles; and
  /// more and fewer where no sample is cut.
  void improve_with(const Decided& decided, double enough, GroupPlan& best) {
    try_boundaries(decided, enough, best);
    if (decided.cut.exact || packs_given()) return;
    auto packs = static_cast<double>(decided.cut.packs);
    const int rounds = uncut(decided.cut) ? 2 : decided.memory_bound ? 0 : 1;
    for (int i = 0; i < rounds && best.schedule.seconds > enough; ++i) {
      packs *= options_.search.denser;
      try_packs(static_cast<std::size_t>(std::round(packs)), decided, enough, best);
    }
    const std::size_t most = groups_.work().tiles(decided.cut.tile);
    if (has_few_tiles(decided.cut) && most > decided.cut.packs) try_packs(most, decided, enough, best);
    GroupCut fewer = decided.cut;
    while (fewer.packs > 1 && has_few_tiles(fewer) && best.schedule.seconds > enough) {
      fewer.packs /= 2;
      try_packs(fewer.packs, decided, enough, best);
    }
  }

  /// Tries all kinds of backward boundaries with another number of packs.
  void try_packs(std::size_t packs, Decided decided, double enough, GroupPlan& best) {
    decided.cut.packs = packs;
    if (groups_.least_seconds(packs) < best.schedule.seconds) try_boundaries(decided, enough, best);
  }

  /// Tries all ways to cut the backward pass that may be better, until the group takes no longer than `enough`. Short chains
  /// are tried where memory limits what was decided, and where packs have few tiles or no sample is cut.
  void try_boundaries(const Decided& decided, double enough, GroupPlan& best) {
    using enum BackwardPacks;
    GroupCut cut = decided.cut;
    const bool may_have_short_chains = decided.memory_bound || has_few_tiles(cut);
    for (const BackwardPacks backward : {own, mirrored, mirrored_apart, mirrored_rising}) {
      if (best.schedule.seconds <= enough) return;
      if (backward == own && !options_.asymmetric) continue;
      if (backward >= mirrored_apart && !may_have_short_chains) continue;
      cut.backward = backward;
      double& least = tried_.least_seconds(cut);
      if (least >= best.schedule.seconds) continue;
      groups_.improve_with(cut, best);
      least = best.schedule.seconds;
    }
  }

  SlimPackOptions options_;
  GroupScheduler& groups_;
  TriedCuts tried_;
};

}  // namespace slimpack
