#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/cost/memory_prices.hpp"
#include "slimpack/schedule/placed_schedule.hpp"
#include "slimpack/schedule/scheduler.hpp"

namespace slimpack {

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
  idle.peak_bytes.assign(pipelines.size(), bytes);
  return idle;
}

/// A schedule on its pipeline, which is idle if there are no packs. @pre it fits. @param scheduler, memory that it was made with.
[[nodiscard]] inline PlacedSchedule place_or_idle(PipelineId pipeline, Schedule&& schedule,
                                                  Scheduler& scheduler, const Memory& memory) {
  if (schedule.forward.packs.size() == 0) return idle_schedule(memory, {&pipeline, 1});
  auto peaks = scheduler.peak_bytes(schedule);
  return {{pipeline}, std::move(schedule), std::move(peaks)};
}

}  // namespace slimpack
