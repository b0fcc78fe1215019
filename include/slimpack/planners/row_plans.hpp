#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/partition/rank_rows.hpp"
#include "slimpack/planners/assemble_on_layout.hpp"
#include "slimpack/schedule/row_barriers.hpp"
#include "slimpack/schedule/scheduler.hpp"
#include "slimpack/slicing/rank_packs.hpp"

namespace slimpack::detail {

/// A schedule of rows of groups, and what all its pipelines wait for each other besides.
struct RowPlan {
  Schedule schedule = {};
  double barrier_wait = 0.0;  ///< seconds that ranks wait at barriers beyond what the schedule has
  double seconds = std::numeric_limits<double>::infinity();  ///< with that
};

/// Seconds that the pipelines of a schedule of one stage wait at barriers after rows, beyond what the schedule has; 0
/// if it does not fit. @param row [pack] in which it runs.
[[nodiscard]] inline double barrier_wait(const Schedule& schedule, std::span<const std::uint32_t> row) {
  if (!schedule.fits()) return 0.0;
  const double seconds = seconds_with_barriers(schedule, row);
  constexpr double rounding = 1e-12;
  return seconds > schedule.seconds * (1.0 + rounding) ? seconds - schedule.seconds : 0.0;
}

/// Schedules rows of groups. Recomputes the same, and as little as fits, in all packs.
/// @param one_by_one a pack for each sample; otherwise one for each group. @param barriers whether all pipelines, of one
/// stage each, wait for each other after each row. @returns infinite seconds if that takes `most` seconds or longer, or
/// does not fit.
[[nodiscard]] inline RowPlan schedule_rows(std::span<const Tokens> lengths, std::span<const RankRow> rows,
                                           std::size_t ranks, bool one_by_one, bool barriers,
                                           Scheduler& scheduler, double most) {
  RankPacks packs = rank_packs(lengths, rows, ranks, one_by_one);
  RowPlan plan;
  plan.schedule.pipelines = ranks;
  plan.schedule.forward = plan.schedule.backward = std::move(packs.packs);
  scheduler(plan.schedule, {.fit = FitPolicy::recompute}, most);
  if (barriers) plan.barrier_wait = barrier_wait(plan.schedule, packs.row);
  plan.seconds = plan.schedule.seconds + plan.barrier_wait;
  if (plan.seconds >= most) plan.seconds = std::numeric_limits<double>::infinity();
  return plan;
}

/// The same with a pack for each group and with barriers: with ZeRO-3, a micro-batch's layers begin with parameters that
/// all ranks gather together.
[[nodiscard]] inline RowPlan schedule_with_barriers(std::span<const Tokens> lengths,
                                                    std::span<const RankRow> rows, std::size_t ranks,
                                                    Scheduler& scheduler, double most) {
  return schedule_rows(lengths, rows, ranks, false, true, scheduler, most);
}

/// The plan of a schedule of all pipelines of a job's layout, with its lower bound; the step and a note have the wait at
/// barriers. @pre the schedule fits.
[[nodiscard]] inline Plan assemble_rows(const char* planner, std::span<const Tokens> lengths, const Job& job,
                                        RowPlan best, GroupPrices& prices, Scheduler& scheduler) {
  std::vector<PlacedSchedule> placed;
  placed.push_back(placed_from(0, scheduler.with_peaks(std::move(best.schedule))));
  Plan plan = assemble_on_layout(planner, lengths, job, std::move(placed), prices);
  plan.step.sync_seconds += best.barrier_wait;
  plan.step.seconds += best.barrier_wait;
  if (best.barrier_wait > 0.0)
    plan.notes.push_back(
        concat("step.sync_seconds includes ", best.barrier_wait,
               " s in which ranks wait at the barriers after rows, which no order of tasks can say"));
  return plan;
}

}  // namespace slimpack::detail
