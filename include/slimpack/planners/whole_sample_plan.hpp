#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/plan/assemble.hpp"
#include "slimpack/planners/row_plans.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "slimpack/schedule/lower_bound.hpp"

namespace slimpack::detail {

/// The schedules of a plan's groups on the neighbouring pipelines that run them.
[[nodiscard]] inline StrategySchedules placed_groups(WholeSamplePlan&& plan, Scheduler& scheduler) {
  StrategySchedules out{.seconds = plan.seconds};
  for (std::size_t g = 0; g < plan.schedules.size(); ++g)
    out.placed.push_back(
        placed_from(g * plan.pipelines_per_pack, scheduler.with_peaks(std::move(plan.schedules[g]))));
  return out;
}

/// Turns a schedule whose pipelines run all packs together into that of one pipeline with all their context-parallel ranks.
inline Schedule as_one_pipeline(Schedule schedule) {
  schedule.pipelines = 1;
  schedule.peak_bytes.resize(1);  // all have the same
  for (PackRows* const rows : {&schedule.forward, &schedule.backward})
    *rows = in_rows(std::move(rows->packs));
  return schedule;
}

/// The plan of packs of whole samples, with its lower bound; pipelines that run each pack together are one, with more context
/// parallelism. Samples that are in no pack are deferred. @pre something fits.
[[nodiscard]] inline Plan assemble_whole_samples(std::string_view planner, std::span<const Tokens> lengths,
                                                 const Job& job, WholeSamplePlan best, GroupPrices& prices,
                                                 Scheduler& scheduler) {
  Job used = job;
  used.layout.dp /= static_cast<std::int32_t>(best.pipelines_per_pack);
  used.layout.cp *= static_cast<std::int32_t>(best.pipelines_per_pack);
  std::vector<std::uint8_t> is_trained(lengths.size(), 0);
  std::vector<PlacedSchedule> placed;
  for (Schedule& schedule : best.schedules) {
    for (const Slice& slice : schedule.forward.packs.slices()) is_trained[slice.sample] = 1;
    placed.push_back(placed_from(placed.size(), as_one_pipeline(scheduler.with_peaks(std::move(schedule)))));
  }
  Plan plan = assemble_plan(planner, lengths, job.model, job.device, layout_strategy(used), std::move(placed),
                            prices.alone().sync_seconds());
  std::vector<Tokens> trained;
  for (SampleId id = 0; id < lengths.size(); ++id) {
    if (is_trained[id] != 0) {
      trained.push_back(lengths[id]);
    } else {
      plan.deferred.push_back(id);
    }
  }
  GroupPrices own(prices.shared_by(best.pipelines_per_pack));
  const StepLowerBound bound = step_lower_bound(trained, static_cast<std::size_t>(used.layout.dp), own);
  state_lower_bound(bound.seconds(), bound.exists, plan);
  return plan;
}

}  // namespace slimpack::detail
