#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/schedule/schedule.hpp"

namespace slimpack {

/// A schedule and the pipelines of the strategy that run it.
struct PlacedSchedule {
  std::vector<PipelineId> pipelines;  ///< [place in the schedule]
  Schedule schedule;
  std::vector<std::vector<double>> peak_bytes;  ///< [place in the schedule][stage]
  std::size_t phase = 0;                        ///< in which its pipelines run
};

/// Schedules of all pipelines of a strategy.
struct StrategySchedules {
  std::vector<PlacedSchedule> placed = {};                   ///< empty: nothing fits
  double seconds = std::numeric_limits<double>::infinity();  ///< of the slowest, without synchronisation
};

}  // namespace slimpack
