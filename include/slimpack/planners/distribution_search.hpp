#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/planners/group_search.hpp"

namespace slimpack {

/// Groups of pipelines with their samples, and the best schedule of each.
struct DistributionPlan {
  std::vector<SampleGroup> groups;
  std::vector<GroupPlan> plans;                              ///< [group]
  double seconds = std::numeric_limits<double>::infinity();  ///< of the slowest group
};

/// Schedules groups of pipelines that run side by side. They have about the same work, so how one is cut suits most; only
/// those that are slower than the rest are searched on their own.
class DistributionSearch {
 public:
  explicit DistributionSearch(GroupSearch& search) : search_(search) {}

  /// Cuts all groups alike. @param like how; if it has no number of packs, the last group is searched for it, which has
  /// no merged samples unless all have. @param most gives up if a group takes that long; the seconds are then infinite.
  [[nodiscard]] DistributionPlan look(std::vector<SampleGroup> groups, GroupCut like, double most) {
    DistributionPlan out{.groups = std::move(groups), .plans = {}};
    out.plans.resize(out.groups.size());
    std::size_t left = out.groups.size();
    if (like.packs == 0) {
      search_.load(out.groups[--left]);
      search_.search(0.0, out.plans[left]);
      like = out.plans[left].cut;
      if (out.plans[left].schedule.seconds >= most) return out;
    }
    for (std::size_t g = 0; g < left; ++g) {
      search_.load(out.groups[g]);
      search_.try_cut(like, infinite, out.plans[g]);
      if (out.plans[g].schedule.fits() && out.plans[g].schedule.seconds >= most) return out;
    }
    out.seconds = slowest_seconds(out);
    return out;
  }

  /// Searches the slowest group for a better number of packs, until the slowest one has its best.
  /// @param most gives up if that takes no less.
  void improve(DistributionPlan& plan, double most = infinite) {
    std::vector<bool> searched(plan.groups.size(), false);
    for (std::size_t g = slowest(plan); !searched[g]; g = slowest(plan)) {
      GroupPlan& own = plan.plans[g];
      const double others = slowest_seconds(plan, g);
      const bool one_of_many = others < own.schedule.seconds;
      search_.load(plan.groups[g]);
      search_.search(one_of_many ? others : 0.0, own);
      searched[g] = !one_of_many || own.schedule.seconds > others;
      if (searched[g] && own.schedule.seconds >= most) break;
    }
    plan.seconds = slowest_seconds(plan);
  }

  /// The group that takes longest.
  [[nodiscard]] static std::size_t slowest(const DistributionPlan& plan) {
    const auto longest = std::max_element(
        plan.plans.begin(), plan.plans.end(),
        [](const GroupPlan& a, const GroupPlan& b) { return a.schedule.seconds < b.schedule.seconds; });
    return static_cast<std::size_t>(longest - plan.plans.begin());
  }

  /// Seconds of the group that takes longest, but for one.
  [[nodiscard]] static double slowest_seconds(const DistributionPlan& plan,
                                              std::size_t but = static_cast<std::size_t>(-1)) {
    double most = 0.0;
    for (std::size_t g = 0; g < plan.plans.size(); ++g) {
      if (g != but) most = std::max(most, plan.plans[g].schedule.seconds);
    }
    return most;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  GroupSearch& search_;
};

}  // namespace slimpack
