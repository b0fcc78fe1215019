#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/planners/distribution_plan.hpp"
#include "slimpack/planners/group_search.hpp"

namespace slimpack {

/// Schedules groups of pipelines that run side by side. Groups of equal size have about the same work, so a few of them
/// stand for all, and the cut of one suits most others; only groups that are slower than the rest are searched on their own.
class DistributionSearch {
 public:
  /// @param search has to outlive this. @param similar `SlimPackSearch::similar`.
  DistributionSearch(GroupSearch& search, double similar) : search_(search), similar_(similar) {}

  /// Schedules the groups that stand for others, and estimates the others.
  /// @param loads of the pipelines. @param packs of each group, `GroupPlan::relative_packs`; 0: as is best for the last group,
  /// which has no merged samples unless all groups have. @param most gives up if a group, or the load of a pipeline alone, takes
  /// that long; the seconds are then infinite.
  [[nodiscard]] DistributionPlan look(std::vector<SampleGroup> groups, std::span<const double> loads,
                                      double packs, double most) {
    DistributionPlan out;
    out.groups = std::move(groups);
    out.plans.resize(out.groups.size());
    for (std::size_t g = 0; g < out.groups.size(); ++g) {
      const double load = loads[out.groups[g].first];
      if (load < most) continue;
      out.plans[g].schedule.seconds = load;
      out.given_up = g;
      out.overloaded = true;
      return out;
    }
    const std::vector<std::size_t> shown = representatives(out.groups, loads);
    const auto schedule = [&](std::size_t g) {
      Schedule& own = out.plans[g].schedule;
      search_.load(out.groups[g]);
      own.seconds = search_.work().limited_seconds();
      own.memory_bound = own.seconds >= most;
      if (!own.memory_bound) schedule_loaded(packs, out.plans[g]);
      if (own.fits() && own.seconds < most) return true;
      out.given_up = g;
      return false;
    };
    if (!schedule(shown.back())) return out;
    if (packs == 0.0) packs = out.plans[shown.back()].relative_packs();
    for (std::size_t i = 0; i + 1 < shown.size(); ++i) {
      if (!schedule(shown[i])) return out;
    }
    for (std::size_t i = 0; i + 1 < shown.size(); ++i) estimate_between(shown[i], shown[i + 1], out.plans);
    out.seconds = out.slowest_seconds();
    return out;
  }

  /// Finds a better number of packs for the slowest group, and cuts groups that are like it in the same way, until the
  /// slowest group has its best. @param most gives up if that takes this long or longer.
  void improve(DistributionPlan& plan, double most = infinite) {
    std::vector<bool> searched(plan.groups.size(), false);
    for (std::size_t g = plan.slowest(); !searched[g]; g = plan.slowest()) {
      GroupPlan& own = plan.plans[g];
      if (own.estimated) {
        const double packs = own.relative_packs();
        own = {};
        search_.load(plan.groups[g]);
        schedule_loaded(packs, own);
        continue;
      }
      const double before = own.schedule.seconds;
      const auto is_alike = [&](std::size_t h) {
        return plan.groups[h].size() == plan.groups[g].size() &&
               plan.plans[h].schedule.seconds >= before / similar_;
      };
      double others = 0.0;
      for (std::size_t h = 0; h < plan.groups.size(); ++h) {
        if (!is_alike(h)) others = std::max(others, plan.plans[h].schedule.seconds);
      }
      search_.load(plan.groups[g]);
      search_.search(others, own);
      searched[g] = own.schedule.seconds >= others;
      if (searched[g] && own.schedule.seconds >= most) break;
      for (std::size_t h = 0; h < plan.groups.size(); ++h) {
        if (h == g || searched[h] || !is_alike(h)) continue;
        cut_like(own, before, plan.groups[h], plan.plans[h]);
        searched[h] = searched[g] && plan.plans[h].schedule.seconds <= similar_ * own.schedule.seconds;
      }
    }
    plan.seconds = plan.slowest_seconds();
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Groups that stand for those between them, ascending: the first and the last of each run of groups of equal size and
  /// similar load.
  [[nodiscard]] std::vector<std::size_t> representatives(std::span<const SampleGroup> groups,
                                                         std::span<const double> loads) const {
    std::vector<std::size_t> shown;
    for (std::size_t begin = 0, end = 0; begin < groups.size(); begin = end) {
      double least = loads[groups[begin].first], most = least;
      for (; end < groups.size() && groups[end].size() == groups[begin].size(); ++end) {
        least = std::min(least, loads[groups[end].first]);
        most = std::max(most, loads[groups[end].first]);
        if (most > similar_ * least) break;
      }
      for (const std::size_t g : {begin, end - 1}) {
        if (shown.empty() || shown.back() != g) shown.push_back(g);
      }
    }
    return shown;
  }

  /// Estimates the groups between two others: seconds change evenly, and each is cut like the nearer one.
  static void estimate_between(std::size_t first, std::size_t last, std::vector<GroupPlan>& plans) {
    const Schedule &from = plans[first].schedule, &to = plans[last].schedule;
    for (std::size_t g = first + 1; g < last; ++g) {
      const double share = static_cast<double>(g - first) / static_cast<double>(last - first);
      const GroupPlan& near = plans[share < 0.5 ? first : last];
      plans[g].cut = near.cut;
      plans[g].promising = near.promising;
      plans[g].schedule.memory_bound = near.schedule.memory_bound;
      plans[g].schedule.seconds = from.seconds + share * (to.seconds - from.seconds);
      plans[g].estimated = true;
    }
  }

  /// Schedules the loaded group with this multiple of the promising number of packs; if that does not fit, or if it is 0, with
  /// the best number.
  void schedule_loaded(double relative_packs, GroupPlan& plan) {
    plan.schedule.seconds = infinite;
    if (relative_packs > 0.0) search_.try_relative(relative_packs, plan);
    if (!plan.schedule.fits()) search_.search(0.0, plan);
  }

  /// Cuts a group into as many packs as another one if that is better. @param before the other's seconds before it was cut
  /// into that many.
  void cut_like(const GroupPlan& other, double before, const SampleGroup& group, GroupPlan& best) {
    if (other.cut.packs == best.cut.packs) return;
    if (best.estimated) {
      best.cut = other.cut;
      best.promising = other.promising;
      best.schedule.seconds *= other.schedule.seconds / before;
      return;
    }
    search_.load(group);
    search_.try_count(other.cut.packs, best);
  }

  GroupSearch& search_;
  double similar_;  // groups are alike if their seconds differ by no more than this factor
};

}  // namespace slimpack
