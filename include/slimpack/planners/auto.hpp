#pragma once

#include <cstddef>
#include <functional>
#include <optional>
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

/// A plan and how it compares.
struct RivalPlan {
  Plan plan;
  LayoutFigures figures;
  std::string where = {};
};

/// The best of what `make(planner)` gives for each planner, with a note why. What trains only a part of the batch does not
/// count.
template <class Make>
[[nodiscard]] Plan best_of_planners(std::span<const NamedPlanner> planners, const Make& make) {
  std::vector<Rival> rivals;
  std::optional<Plan> best;
  double least = std::numeric_limits<double>::infinity();
  for (const NamedPlanner& planner : planners) {
    Rival& own = rivals.emplace_back(Rival{.name = planner.name});
    try {
      RivalPlan made = make(planner);
      own.where = made.where;
      require(made.plan.deferred.empty(), made.plan.deferred.size(), " samples are left for later steps");
      own.seconds_per_token = made.figures.seconds_per_token();
      if (own.seconds_per_token < least) best = std::move(made.plan);
      least = std::min(least, own.seconds_per_token);
    } catch (const InvalidInput& error) {
      own.reason = error.what();
    }
  }
  const std::size_t winner = best_rival(rivals);
  best->notes.push_back(why_best(rivals, winner));
  return std::move(*best);
}

}  // namespace detail

/// The plan of the planner with the fewest seconds per trained token, of any number of planners; its notes say why. Planners
/// are comparable if they have the same prices. A plan that leaves samples for later steps does not count.
/// @throws InvalidInput with all reasons if no planner has a plan.
[[nodiscard]] inline Plan plan_auto(std::span<const Tokens> lengths, const Job& job,
                                    std::span<const NamedPlanner> planners) {
  return detail::best_of_planners(planners, [&](const NamedPlanner& planner) {
    Plan plan = planner.plan(lengths, job);
    const LayoutFigures figures = layout_figures(plan);
    return detail::RivalPlan{std::move(plan), figures};
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
    const LayoutFigures figures = layout_figures(choice.planned);
    return detail::RivalPlan{std::move(choice.planned), figures, to_text(choice.layout)};
  });
}

}  // namespace slimpack
