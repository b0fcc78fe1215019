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

  /// Schedules all members of all groups with the plan's own tile or twice, four times, … as coarse a one, whichever is
  /// best: what suits a tile does not depend on the plan's own one. @param most gives up what takes no less.
  DistributionPlan operator()(DistributionPlan plan, double most = infinite) {
    if (plan.seconds == infinite) return {};
    std::vector<GroupCut> cuts;
    for (const GroupPlan& group : plan.plans) cuts.push_back(group.cut);
    std::vector<std::size_t> order(plan.groups.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return plan.plans[a].schedule.seconds > plan.plans[b].schedule.seconds;
    });
    plan.seconds = infinite;
    if (allowed(cuts)) {
      for (std::size_t g = 0; g < cuts.size(); ++g) complete(plan.groups[g], plan.plans[g]);
      plan.seconds = DistributionSearch::slowest_seconds(plan);
    }
    for (const Tokens tile : tiles()) {
      std::vector<GroupPlan> plans = plans_with(tile, plan.groups, cuts, order, std::min(plan.seconds, most));
      if (plans.empty()) continue;
      plan.plans = std::move(plans);
      plan.seconds = DistributionSearch::slowest_seconds(plan);
    }
    return plan.seconds < most ? plan : DistributionPlan{};
  }

  /// Whether the slowest group takes `most` seconds or longer with all tiles.
  bool slowest_takes(const DistributionPlan& plan, double most) {
    const std::size_t g = DistributionSearch::slowest(plan);
    groups_.load(plan.groups[g]);
    for (const Tokens tile : tiles()) {
      if (best_with(tile, plan.plans[g].cut, most).schedule.fits()) return false;
    }
    return true;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// The plan's own tile, then twice, four times, … as coarse ones until no sample is cut. Where the number of packs is
  /// given, only the plan's own: fewer come out of coarser ones.
  [[nodiscard]] std::vector<Tokens> tiles() const {
    std::vector<Tokens> tiles{options_.tile};
    while (!options_.packs_given && tiles.back() < options_.longest) tiles.push_back(2 * tiles.back());
    return tiles;
  }

  /// Whether these cuts are the plan's to make.
  [[nodiscard]] bool allowed(std::span<const GroupCut> cuts) const {
    return std::all_of(cuts.begin(), cuts.end(), [&](const GroupCut& cut) {
      const bool own = options_.packs_given ? cut.tile == options_.tile : cut.tile % options_.tile == 0;
      return own && (options_.asymmetric || !cut.asymmetric);
    });
  }

  /// Schedules all members of a group, of which one stood for all.
  void complete(const SampleGroup& group, GroupPlan& plan) {
    GroupCut cut = plan.cut;
    if (!cut.one_member) return;
    cut.one_member = false;
    groups_.load(group);
    groups_.try_cut(cut, infinite, plan);
    if (plan.schedule.fits()) return;
    groups_.options().one_member = false;
    groups_.search(0.0, plan);
    groups_.options().one_member = true;
  }

  /// All groups with one tile; none if a group takes `most` seconds or longer. @param order in which to try the groups.
  std::vector<GroupPlan> plans_with(Tokens tile, std::span<const SampleGroup> groups,
                                    std::span<const GroupCut> cuts, std::span<const std::size_t> order,
                                    double most) {
    std::vector<GroupPlan> plans(groups.size());
    for (const std::size_t g : order) {
      groups_.load(groups[g]);
      plans[g] = best_with(tile, cuts[g], most);
      if (!plans[g].schedule.fits()) return {};
    }
    return plans;
  }

  /// The best way to cut the group that is loaded with one tile, of those that take less than `most`.
  GroupPlan best_with(Tokens tile, GroupCut cut, double most) {
    const std::size_t packs = cut.packs;
    GroupPlan best;
    best.schedule.seconds = most;
    cut.tile = tile;
    cut.one_member = false;
    bool refused = try_boundaries(cut, best);
    const bool given = cut.exact || options_.packs_given;
    // Fewer packs suit tiles coarser than that with which their number was chosen, and more packs hold less.
    for (Tokens share = 4; !given && share * options_.deciding_tile <= tile && cut.packs > 1; share *= 4) {
      cut.packs = std::max<std::size_t>(1, packs / static_cast<std::size_t>(share));
      refused = try_boundaries(cut, best) && refused;
    }
    for (cut.packs = 4 * packs; !given && refused && cut.packs <= 64 * packs; cut.packs *= 4)
      refused = try_boundaries(cut, best);
    if (best.schedule.forward.packs.empty()) best.schedule.seconds = infinite;
    return best;
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
