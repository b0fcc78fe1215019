#pragma once

#include <cstddef>

#include "batches.hpp"
#include "planners.hpp"
#include "progress.hpp"
#include "table.hpp"

namespace slimpack::command {

/// Successive batches that are planned.
struct Series {
  const Lengths& lengths;
  std::size_t iterations = 1;
  std::size_t threads = 1;  ///< that plan at once; planners that take batches in order use one
  Progress& progress;
};

/// What a planner made of successive batches.
struct Planned {
  Row sums;
  Plan first;  ///< plan of the first batch; the others' figures are enough
};

/// Plans all batches on the layout of the options. Of a planner's several runs the one counts that takes least time in all.
/// @throws InvalidInput naming the line of the sample that can't be planned.
Planned plan_series(const Planner& planner, const JobOptions& options, const Series& series);

}  // namespace slimpack::command
