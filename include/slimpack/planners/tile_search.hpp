#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/planners/distribution_search.hpp"

namespace slimpack {

/// Turns distributions that were chosen with one tile into plans with the tile that is asked for.
class TileSearch {
 public:
  struct Options {
    Tokens tile = 128;           ///< the plan's own
    Tokens deciding_tile = 128;  ///< with which numbers of packs were chosen
    Tokens longest = 0;          ///< of the samples
    bool asymmetric = true;      ///< own boundaries for the backward pass where they help
    bool packs_given = false;    ///< numbers of packs are kept
  };

  /// @param groups has to outlive this.
  TileSearch(GroupSearch& groups, const Options& options) : options_(options), groups_(groups) {}

  /// Schedules all members of all groups as they were decided; then the slowest group in every other way, until the slowest
  /// one has its best: with the plan's own tile or twice, four times, … as coarse a one, and with both kinds of backward
  /// boundaries. What suits a tile does not depend on the plan's own one. @param most gives up what takes no less.
  DistributionPlan operator()(DistributionPlan plan, double most = infinite) {
    if (plan.seconds == infinite) return {};
    std::vector<bool> searched(plan.groups.size(), false);
    for (const std::size_t g : slowest_first(plan)) {
      GroupPlan& own = plan.plans[g];
      const GroupCut cut = own.cut;
      groups_.load(plan.groups[g]);
      as_decided(own, most);
      if (own.schedule.seconds < most) continue;
      own = best_of(cut, most);
      if (!own.schedule.fits()) return {};
      searched[g] = true;
    }
    for (std::size_t g = DistributionSearch::slowest(plan); !searched[g]; g = DistributionSearch::slowest(plan)) {
      GroupPlan& own = plan.plans[g];
      groups_.load(plan.groups[g]);
      GroupPlan other = best_of(own.cut, own.schedule.seconds);
      if (other.schedule.fits()) own = std::move(other);
      searched[g] = true;
    }
    plan.seconds = DistributionSearch::slowest_seconds(plan);
    return plan;
  }

  /// Whether a group takes `most` seconds or longer in every way. @param cut as it was decided.
  bool takes(const SampleGroup& group, const GroupCut& cut, double most) {
    groups_.load(group);
    return !best_of(cut, most).schedule.fits();
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  [[nodiscard]] static std::vector<std::size_t> slowest_first(const DistributionPlan& plan) {
    std::vector<std::size_t> order(plan.groups.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return plan.plans[a].schedule.seconds > plan.plans[b].schedule.seconds;
    });
    return order;
  }

  /// Schedules all members of the group that is loaded as it was decided, if the plan may be cut so; its seconds are
  /// infinite otherwise.
  void as_decided(GroupPlan& plan, double most) {
    const bool own = options_.packs_given ? plan.cut.tile == options_.tile : plan.cut.tile % options_.tile == 0;
    const bool allowed = own && (options_.asymmetric || !plan.cut.asymmetric);
    if (allowed && !plan.estimated && !plan.cut.one_member) return;
    GroupCut cut = plan.cut;
    cut.one_member = false;
    plan = {};
    if (allowed) groups_.try_cut(cut, most, plan);
  }

  /// The plan's own tile, then twice, four times, … as coarse ones until no sample is cut. Where the number of packs is
  /// given, only the plan's own: fewer come out of coarser ones.
  [[nodiscard]] std::vector<Tokens> tiles() const {
    std::vector<Tokens> tiles{options_.tile};
    while (!options_.packs_given && tiles.back() < options_.longest) tiles.push_back(2 * tiles.back());
    return tiles;
  }

  /// The best way to cut the group that is loaded, of those that take less than `most`; infinite if there is none.
  GroupPlan best_of(const GroupCut& decided, double most) {
    GroupPlan best;
    best.schedule.seconds = most;
    for (const Tokens tile : tiles()) {
      GroupCut cut = decided;
      cut.tile = tile;
      cut.one_member = false;
      improve_with(cut, best);
    }
    if (best.schedule.forward.packs.empty()) best.schedule.seconds = infinite;
    return best;
  }

  /// Both kinds of backward boundaries with one tile, and other numbers of packs where these suit it.
  void improve_with(GroupCut cut, GroupPlan& best) {
    const std::size_t packs = cut.packs;
    const bool given = cut.exact || options_.packs_given;
    bool refused = try_boundaries(cut, best);
    // Fewer packs suit tiles coarser than that with which their number was chosen, and more packs hold less.
    for (Tokens share = 2; !given && share * options_.deciding_tile <= cut.tile && cut.packs > 1; share *= 2) {
      cut.packs = std::max<std::size_t>(1, packs / static_cast<std::size_t>(share));
      if (groups_.least_seconds(cut.packs) < best.schedule.seconds) refused = try_boundaries(cut, best) && refused;
    }
    for (cut.packs = 4 * packs; !given && refused && cut.packs <= 64 * packs; cut.packs *= 4)
      refused = try_boundaries(cut, best);
  }

  /// Both ways to cut the backward pass. @returns whether neither fits into memory.
  bool try_boundaries(GroupCut cut, GroupPlan& best) {
    bool refused = true;
    for (const bool asymmetric : {true, false}) {
      if (asymmetric && !options_.asymmetric) continue;
      cut.asymmetric = asymmetric;
      if (!groups_.improve_with(cut, best).refused) refused = false;
    }
    return refused;
  }

  Options options_;
  GroupSearch& groups_;
};

}  // namespace slimpack
