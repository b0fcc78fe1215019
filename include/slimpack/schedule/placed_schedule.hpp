#pragma once

#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/cost/memory_prices.hpp"
#include "slimpack/schedule/schedule.hpp"

namespace slimpack {

/// A schedule and the pipelines of the strategy that run it.
struct PlacedSchedule {
  std::vector<PipelineId> pipelines;  ///< [place in the schedule]
  Schedule schedule;                  ///< with its peaks of memory
  std::size_t phase = 0;              ///< in which its pipelines run
};

/// Schedules of all pipelines of a strategy.
struct StrategySchedules {
  std::vector<PlacedSchedule> placed = {};                   ///< empty: nothing fits
  double seconds = std::numeric_limits<double>::infinity();  ///< of the slowest, without synchronisation
};

/// A schedule on neighbouring pipelines, of which `first` is the first.
[[nodiscard]] inline PlacedSchedule placed_from(std::size_t first, Schedule schedule) {
  std::vector<PipelineId> pipelines(schedule.pipelines);
  std::iota(pipelines.begin(), pipelines.end(), static_cast<PipelineId>(first));
  return {std::move(pipelines), std::move(schedule)};
}

/// A schedule of pipelines of a kind that run nothing.
[[nodiscard]] inline PlacedSchedule idle_schedule(const Memory& memory,
                                                  std::span<const PipelineId> pipelines) {
  PlacedSchedule idle;
  idle.pipelines.assign(pipelines.begin(), pipelines.end());
  idle.schedule.pipelines = pipelines.size();
  idle.schedule.leads.reset(memory.stages(), 0);
  idle.schedule.seconds = 0.0;
  std::vector<double> bytes;
  for (std::size_t s = 0; s < memory.stages(); ++s) bytes.push_back(memory.static_bytes(s));
  idle.schedule.peak_bytes.assign(pipelines.size(), bytes);
  return idle;
}

}  // namespace slimpack
