#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/partition/groups.hpp"
#include "slimpack/schedule/group_scheduler.hpp"

namespace slimpack {

/// Groups of pipelines with their samples, and the best schedule of each.
struct DistributionPlan {
  std::vector<SampleGroup> groups;
  std::vector<GroupPlan> plans;  ///< [group]
  double seconds =
      std::numeric_limits<double>::infinity();  ///< of the slowest group; infinite: refused, or given up
  std::optional<std::size_t> given_up = {};     ///< the group that memory refuses, or that takes too long
  bool overloaded = false;                      ///< a pipeline's load alone takes too long

  /// The group that takes longest.
  [[nodiscard]] std::size_t slowest() const {
    const auto longest = std::max_element(
        plans.begin(), plans.end(),
        [](const GroupPlan& a, const GroupPlan& b) { return a.schedule.seconds < b.schedule.seconds; });
    return static_cast<std::size_t>(longest - plans.begin());
  }

  /// The seconds of that group.
  [[nodiscard]] double slowest_seconds() const { return plans[slowest()].schedule.seconds; }

  /// The plan's seconds; if it was given up, those of the group that takes too long.
  [[nodiscard]] double known_seconds() const {
    return given_up ? plans[*given_up].schedule.seconds : seconds;
  }

  /// What the slowest group would take with enough memory.
  [[nodiscard]] double unlimited_seconds() const {
    double most = 0.0;
    for (const GroupPlan& plan : plans) most = std::max(most, plan.estimated ? 0.0 : plan.schedule.unlimited);
    return most;
  }

  /// Seconds that all groups would take if their work could be balanced.
  [[nodiscard]] double mean_seconds() const {
    double sum = 0.0, pipelines = 0.0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto members = static_cast<double>(groups[g].size());
      sum += plans[g].schedule.seconds * members;
      pipelines += members;
    }
    return sum / pipelines;
  }

  /// Seconds that each pipeline's schedule takes beyond the work that it was priced with (to fill and drain, to wait, to
  /// recompute), minus the least of them. @param loads of the pipelines.
  [[nodiscard]] std::vector<double> overheads(std::span<const double> loads) const {
    std::vector<double> overhead(loads.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::size_t p = groups[g].first; p < groups[g].first + groups[g].size(); ++p)
        overhead[p] = plans[g].schedule.seconds - loads[p];
    }
    const double least = *std::min_element(overhead.begin(), overhead.end());
    for (double& o : overhead) o -= least;
    return overhead;
  }

  /// Whether all samples are merged over all pipelines.
  [[nodiscard]] bool all_merged() const {
    return groups.size() == 1 &&
           std::ranges::all_of(groups.front().local, [](const auto& own) { return own.empty(); });
  }

  /// Whether memory holds no schedule of the group that was given up.
  [[nodiscard]] bool refused() const { return given_up && !plans[*given_up].schedule.fits(); }
};

/// Whether the same was decided for both: `TileSearch` starts from groups and cuts.
[[nodiscard]] inline bool decided_alike(const DistributionPlan& a, const DistributionPlan& b) {
  return a.seconds == b.seconds && a.groups == b.groups &&
         std::ranges::equal(a.plans, b.plans, {}, &GroupPlan::cut, &GroupPlan::cut);
}

}  // namespace slimpack
