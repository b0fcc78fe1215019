#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/plan/assemble.hpp"
#include "slimpack/plan/notes.hpp"
#include "slimpack/schedule/lower_bound.hpp"

namespace slimpack::detail {

/// The plan of schedules of all pipelines of a job's layout, with its lower bound.
[[nodiscard]] inline Plan assemble_on_layout(std::string_view planner, std::span<const Tokens> lengths,
                                             const Job& job, std::vector<PlacedSchedule> placed,
                                             GroupPrices& prices) {
  Plan plan = assemble_plan(planner, lengths, job.model, job.device, layout_strategy(job), std::move(placed),
                            prices.alone().sync_seconds());
  const StepLowerBound bound = step_lower_bound(lengths, static_cast<std::size_t>(job.layout.dp), prices);
  state_lower_bound(bound.seconds(), bound.exists, plan);
  return plan;
}

}  // namespace slimpack::detail
