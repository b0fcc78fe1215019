#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "slimpack/planners/distribution_plan.hpp"

namespace slimpack {

/// Turns distributions that were decided with one tile into plans with the tile that was asked for.
class TileSearch {
 public:
  struct Options {
    Tokens tile = 128;            ///< the plan's own, at least 1
    Tokens longest = 0;           ///< of the samples
    double tiles_per_pack = 4.0;  ///< `SlimPackSearch::tiles_per_pack`
    double denser = 1.41;         ///< `SlimPackSearch::denser`
    std::size_t more_packs = 4;   ///< `SlimPackSearch::more_packs`
    int more_rounds = 3;          ///< `SlimPackSearch::more_rounds`
    bool asymmetric = true;       ///< own boundaries for the backward pass where they help
    bool packs_given = false;     ///< the user gave the number of packs, so it is kept
  };

  /// @param groups has to outlive this.
  TileSearch(GroupScheduler& groups, const Options& options) : options_(options), groups_(groups) {}

  /// The plan's own tile, then tiles twice, four times, … as coarse. The last one is as long as the longest sample, so that no
  /// sample is cut. If the number of packs is given, only the plan's own: coarser tiles can yield fewer packs.
  [[nodiscard]] std::vector<Tokens> tiles() const { return tiles(options_.longest); }

  /// Whether the plan fits into memory as it was decided. Groups of which one member stood for all are scheduled with all
  /// members.
  [[nodiscard]] bool fits(const DistributionPlan& plan) {
    if (plan.seconds == infinite) return false;
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      if (!plan.plans[g].cut.one_member) continue;
      groups_.load(plan.groups[g]);
      if (!groups_.fits_all_members(plan.plans[g])) return false;
    }
    return true;
  }

  /// Schedules all members of all groups as decided. Then it cuts the slowest group in other ways, until the slowest group
  /// has its best: with each of `tiles()`, and with all kinds of backward boundaries. What is tried with a tile does not
  /// depend on the plan's own tile or kind of boundaries. @param most gives up if the plan takes this long or longer.
  DistributionPlan operator()(DistributionPlan plan, double most = infinite) {
    if (plan.seconds == infinite) return {};
    std::vector<Decided> decided;
    for (const GroupPlan& group : plan.plans) decided.push_back({group.cut, group.schedule.memory_bound});
    for (const std::size_t g : slowest_first(plan)) {
      GroupPlan& own = plan.plans[g];
      groups_.load(plan.groups[g]);
      decided[g].cut.one_member = false;
      if (as_decided(own, most) && !decided[g].memory_bound) decided[g].known = decided[g].cut;
      if (own.schedule.seconds >= most) own = best_of(decided[g], most, most, options_.tile);
      if (!own.schedule.fits()) return {};
    }
    std::vector<bool> searched(plan.groups.size(), false);
    Tokens likely = options_.tile;
    for (std::size_t g = plan.slowest(); !searched[g]; g = plan.slowest()) {
      GroupPlan& own = plan.plans[g];
      groups_.load(plan.groups[g]);
      const double enough = others_seconds(plan, g);
      GroupPlan other = best_of(decided[g], own.schedule.seconds, enough, likely);
      searched[g] = other.schedule.seconds > enough;
      if (!other.schedule.fits()) continue;
      own = std::move(other);
      likely = own.cut.tile;
    }
    plan.seconds = plan.slowest_seconds();
    return plan;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// What was decided for a group.
  struct Decided {
    GroupCut cut;
    bool memory_bound = false;           ///< whether memory limits that
    std::optional<GroupCut> known = {};  ///< is not tried again
  };

  [[nodiscard]] std::vector<Tokens> tiles(Tokens longest) const {
    std::vector<Tokens> tiles{std::clamp(longest, Tokens{1}, options_.tile)};
    while (!options_.packs_given && tiles.back() < longest)
      tiles.push_back(std::min(2 * tiles.back(), longest));
    return tiles;
  }

  [[nodiscard]] static std::vector<std::size_t> slowest_first(const DistributionPlan& plan) {
    std::vector<std::size_t> order(plan.groups.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return plan.plans[a].schedule.seconds > plan.plans[b].schedule.seconds;
    });
    return order;
  }

  /// Schedules all members of the loaded group as decided, if the options allow such a cut; otherwise the seconds are
  /// infinite. @returns whether they do.
  bool as_decided(GroupPlan& plan, double most) {
    const bool own = options_.packs_given ? plan.cut.tile == options_.tile
                                          : uncut(plan.cut) || plan.cut.tile % options_.tile == 0;
    const bool allowed = own && (options_.asymmetric || plan.cut.backward != BackwardPacks::own);
    if (allowed && !plan.estimated && !plan.cut.one_member) return true;
    GroupCut cut = plan.cut;
    cut.one_member = false;
    plan = {};
    if (allowed) groups_.schedule(cut, most, plan);
    return allowed;
  }

  /// Seconds of the slowest of the other groups.
  [[nodiscard]] static double others_seconds(const DistributionPlan& plan, std::size_t slowest) {
    double most = 0.0;
    for (std::size_t g = 0; g < plan.plans.size(); ++g) {
      if (g != slowest) most = std::max(most, plan.plans[g].schedule.seconds);
    }
    return most;
  }

  /// The best way to cut the loaded group, of those that take less than `most` seconds; seconds are infinite if there
  /// is none. @param enough stops at the first tile with which the group takes no longer than this. @param likely the
  /// tile that is tried first.
  GroupPlan best_of(Decided decided, double most, double enough, Tokens likely) {
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
    if (!found() && most == infinite && !decided.cut.exact && !options_.packs_given)
      improve_with_more_packs(decided, best);
    if (!found()) best.schedule.seconds = infinite;
    return best;
  }

  /// Tries more and more packs, with which less memory is held, until some fit. @pre nothing that was decided fits.
  void improve_with_more_packs(Decided decided, GroupPlan& best) {
    for (int i = 0; i < options_.more_rounds && !best.schedule.fits(); ++i) {
      decided.cut.packs *= options_.more_packs;
      for (const Tokens tile : tiles(groups_.work().longest())) {
        decided.cut.tile = tile;
        try_packs(decided.cut.packs, decided, 0.0, best);
      }
    }
  }

  /// Whether no sample of the loaded group is cut.
  [[nodiscard]] bool uncut(const GroupCut& cut) const { return cut.tile >= groups_.work().longest(); }

  /// Whether fewer packs should be tried, because packs have few tiles, or because samples are not cut at all.
  [[nodiscard]] bool has_few_tiles(const GroupCut& cut) const {
    const double tiles = static_cast<double>(groups_.work().tokens()) / static_cast<double>(cut.tile);
    return uncut(cut) || tiles < options_.tiles_per_pack * static_cast<double>(cut.packs);
  }

  /// Tries all kinds of backward boundaries with one tile, and other numbers of packs, until the group takes no longer
  /// than `enough`: more unless memory limits what was decided, fewer where packs have few tiles, and both where no
  /// sample is cut.
  void improve_with(const Decided& decided, double enough, GroupPlan& best) {
    try_boundaries(decided, enough, best);
    if (decided.cut.exact || options_.packs_given) return;
    auto packs = static_cast<double>(decided.cut.packs);
    const int rounds = uncut(decided.cut) ? 2 : decided.memory_bound ? 0 : 1;
    for (int i = 0; i < rounds && best.schedule.seconds > enough; ++i) {
      packs *= options_.denser;
      try_packs(static_cast<std::size_t>(std::round(packs)), decided, enough, best);
    }
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

  /// Tries all ways to cut the backward pass that are not known, until the group takes no longer than `enough`. Short
  /// chains are tried where memory limits what was decided.
  void try_boundaries(const Decided& decided, double enough, GroupPlan& best) {
    using enum BackwardPacks;
    GroupCut cut = decided.cut;
    for (const BackwardPacks backward : {own, mirrored, mirrored_apart, mirrored_rising}) {
      if (best.schedule.seconds <= enough) return;
      if (backward == own && !options_.asymmetric) continue;
      if (backward >= mirrored_apart && !decided.memory_bound) continue;
      cut.backward = backward;
      if (decided.known != cut) groups_.improve_with(cut, best);
    }
  }

  Options options_;
  GroupScheduler& groups_;
};

}  // namespace slimpack
