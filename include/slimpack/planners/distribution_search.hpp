#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/planners/group_search.hpp"

namespace slimpack {

/// Groups of pipelines with their samples, and the best schedule of each.
struct DistributionPlan {
  std::vector<SampleGroup> groups;
  std::vector<GroupPlan> plans;  ///< [group]
  double seconds =
      std::numeric_limits<double>::infinity();  ///< of the slowest group; infinite: refused, or given up
  std::optional<std::size_t> refused = {};      ///< a group that memory holds no schedule of
};

/// Schedules groups of pipelines that run side by side. They have about the same work, so how one is cut suits most; only
/// those that are slower than the rest are searched on their own.
class DistributionSearch {
 public:
  explicit DistributionSearch(GroupSearch& search) : search_(search) {}

  /// Cuts all groups into about as many packs. @param packs for each member and pass; 0: the last group is searched for
  /// the best number, which has no merged samples unless all have. @param most gives up if a group takes that long; the
  /// seconds are then infinite.
  [[nodiscard]] DistributionPlan look(std::vector<SampleGroup> groups, std::size_t packs, double most) {
    DistributionPlan out;
    out.groups = std::move(groups);
    out.plans.resize(out.groups.size());
    for (std::size_t g = out.groups.size(); g-- > 0;) {
      GroupPlan& own = out.plans[g];
      search_.load(out.groups[g]);
      if (packs > 0) search_.try_count(packs, own);
      if (!own.schedule.fits()) search_.search(0.0, own);
      if (!own.schedule.fits()) out.refused = g;
      if (own.schedule.seconds >= most) return out;
      if (packs == 0) packs = own.cut.packs;
    }
    out.seconds = slowest_seconds(out);
    return out;
  }

  /// Searches the slowest group for a better number of packs, and cuts those that are like it in the same way, until the
  /// slowest one has its best. @param most gives up if that takes no less. @returns false if it gave up.
  bool improve(DistributionPlan& plan, double most = infinite) {
    std::vector<bool> searched(plan.groups.size(), false);
    for (std::size_t g = slowest(plan); !searched[g]; g = slowest(plan)) {
      GroupPlan& own = plan.plans[g];
      const double before = own.schedule.seconds;
      const auto is_alike = [&](std::size_t h) {
        return plan.groups[h].size() == plan.groups[g].size() &&
               plan.plans[h].schedule.seconds >= before / similar;
      };
      double others = 0.0;
      for (std::size_t h = 0; h < plan.groups.size(); ++h) {
        if (!is_alike(h)) others = std::max(others, plan.plans[h].schedule.seconds);
      }
      search_.load(plan.groups[g]);
      search_.search(others, own);
      searched[g] = own.schedule.seconds >= others;
      if (searched[g] && own.schedule.seconds >= most) {
        plan.seconds = slowest_seconds(plan);
        return false;
      }
      for (std::size_t h = 0; h < plan.groups.size(); ++h) {
        if (h == g || searched[h] || !is_alike(h)) continue;
        cut_like(own.cut, plan.groups[h], plan.plans[h]);
        searched[h] = searched[g] && plan.plans[h].schedule.seconds <= similar * own.schedule.seconds;
      }
    }
    plan.seconds = slowest_seconds(plan);
    return true;
  }

  /// Seconds that all groups would take if their work could be balanced.
  [[nodiscard]] static double mean_seconds(const DistributionPlan& plan) {
    double sum = 0.0, pipelines = 0.0;
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      const auto members = static_cast<double>(plan.groups[g].size());
      sum += plan.plans[g].schedule.seconds * members;
      pipelines += members;
    }
    return sum / pipelines;
  }

  /// The group that takes longest.
  [[nodiscard]] static std::size_t slowest(const DistributionPlan& plan) {
    const auto longest = std::max_element(
        plan.plans.begin(), plan.plans.end(),
        [](const GroupPlan& a, const GroupPlan& b) { return a.schedule.seconds < b.schedule.seconds; });
    return static_cast<std::size_t>(longest - plan.plans.begin());
  }

  /// Its seconds.
  [[nodiscard]] static double slowest_seconds(const DistributionPlan& plan) {
    return plan.plans[slowest(plan)].schedule.seconds;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Cuts a group into so many packs if that is better.
  void cut_like(const GroupCut& cut, const SampleGroup& group, GroupPlan& best) {
    if (cut.packs == best.cut.packs) return;
    search_.load(group);
    search_.try_count(cut.packs, best);
  }

  /// Groups are alike if their seconds differ by no more than this factor.
  static constexpr double similar = 1.01;

  GroupSearch& search_;
};

}  // namespace slimpack
