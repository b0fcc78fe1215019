#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "slimpack/planners/distribution_plan.hpp"
#include "slimpack/planners/group_cut_search.hpp"

namespace slimpack {

/// Turns distributions that were decided with one tile into plans with the tile that was asked for.
class TileSearch {
 public:
  /// @param groups has to outlive this. @param longest of the samples.
  TileSearch(GroupScheduler& groups, Tokens longest, const SlimPackOptions& options)
      : tile_(options.tile), longest_(longest), groups_(groups), cuts_(groups, options) {}

  /// `GroupCutSearch::tiles` for the longest of all samples.
  [[nodiscard]] std::vector<Tokens> tiles() const { return cuts_.tiles(longest_); }

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
    std::vector<GroupCutSearch::Decided> decided;
    for (const GroupPlan& group : plan.plans) decided.push_back({group.cut, group.schedule.memory_bound});
    for (const std::size_t g : slowest_first(plan)) {
      GroupPlan& own = plan.plans[g];
      cuts_.load(plan.groups[g]);
      decided[g].cut.one_member = false;
      schedule_as_decided(own, most);
      if (own.schedule.seconds >= most) own = cuts_(decided[g], most, most, tile_);
      if (!own.schedule.fits()) return {};
    }
    std::vector<bool> searched(plan.groups.size(), false);
    Tokens likely = tile_;
    for (std::size_t g = plan.slowest(); !searched[g]; g = plan.slowest()) {
      GroupPlan& own = plan.plans[g];
      cuts_.load(plan.groups[g]);
      const double enough = others_seconds(plan, g);
      GroupPlan other = cuts_(decided[g], own.schedule.seconds, enough, likely);
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

  [[nodiscard]] static std::vector<std::size_t> slowest_first(const DistributionPlan& plan) {
    std::vector<std::size_t> order(plan.groups.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return plan.plans[a].schedule.seconds > plan.plans[b].schedule.seconds;
    });
    return order;
  }

  /// Schedules all members of the loaded group as decided, unless the plan is that of all members, and allowed.
  void schedule_as_decided(GroupPlan& plan, double most) {
    if (cuts_.allows(plan.cut) && !plan.estimated && !plan.cut.one_member) return;
    GroupCut cut = plan.cut;
    cut.one_member = false;
    cuts_.schedule(cut, most, plan);
  }

  /// Seconds of the slowest of the other groups.
  [[nodiscard]] static double others_seconds(const DistributionPlan& plan, std::size_t slowest) {
    double most = 0.0;
    for (std::size_t g = 0; g < plan.plans.size(); ++g) {
      if (g != slowest) most = std::max(most, plan.plans[g].schedule.seconds);
    }
    return most;
  }

  Tokens tile_, longest_;
  GroupScheduler& groups_;
  GroupCutSearch cuts_;
};

}  // namespace slimpack
