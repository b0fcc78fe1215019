#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/plan/plan.hpp"
#include "slimpack/planners/best_layout.hpp"
#include "slimpack/planners/rivals.hpp"

namespace slimpack {

/// A planner by name, with its options and prices inside: plans a batch on a job's layout, or throws InvalidInput.
struct NamedPlanner {
  std::string name;
  std::function<Plan(std::span<const Tokens> lengths, const Job& job)> plan;
};

namespace detail {

/// The best of what `make(planner)` gives for each planner, with a note why. What trains only a part of the batch does not
/// count.
template <class Make>
[[nodiscard]] Plan best_of_planners(std::span<const NamedPlanner> planners, const Make& make) {
  std::vector<std::string> names;
  for (const NamedPlanner& planner : planners) names.push_back(planner.name);
  auto best = best_of_rivals(names, [&](std::size_t i) {
    RivalPlan<Plan> made = make(planners[i]);
    const std::size_t left = made.planned.deferred.size();
    require(left == 0, left, " samples are left for later steps");
    return made;
  });
  best.planned.notes.push_back(std::move(best.why));
  return std::move(best.planned);
}

}  // namespace detail

/// The plan of the planner with the fewest seconds per trained token, of any number of planners; its notes say why. Planners
/// are comparable if they have the same prices. A plan that leaves samples for later steps does not count.
/// @throws InvalidInput with all reasons if no planner has a plan.
[[nodiscard]] inline Plan plan_auto(std::span<const Tokens> lengths, const Job& job,
                                    std::span<const NamedPlanner> planners) {
  return detail::best_of_planners(planners, [&](const NamedPlanner& planner) {
    Plan plan = planner.plan(lengths, job);
    const double seconds_per_token = layout_figures(plan).seconds_per_token();
    return RivalPlan<Plan>{std::move(plan), seconds_per_token};
  });
}

/// The same, each planner on its own best layout of a number of devices. @param job its layout is not looked at.
/// @param bound, threads as `plan_best_layout` takes them; the bound holds for all planners.
template <class Bound>
[[nodiscard]] Plan plan_auto(std::span<const Tokens> lengths, const Job& job, const LayoutSpace& space,
                             std::span<const NamedPlanner> planners, const Bound& bound,
                             std::size_t threads = 1) {
  return detail::best_of_planners(planners, [&](const NamedPlanner& planner) {
    LayoutChoice<Plan> choice = plan_best_layout(lengths, job, space, planner.plan, bound, threads);
    const double seconds_per_token = layout_figures(choice.planned).seconds_per_token();
    return RivalPlan<Plan>{std::move(choice.planned), seconds_per_token, to_text(choice.layout)};
  });
}

}  // namespace slimpack
