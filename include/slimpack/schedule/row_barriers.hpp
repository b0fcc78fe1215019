#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/schedule/schedule.hpp"

namespace slimpack {

/// Seconds that a schedule of one stage takes if all its pipelines wait for each other after each of some rows: the sum
/// of what the busiest pipeline takes in each row. @pre both passes have the same packs, and the packs of a pipeline
/// run row by row.
/// @param row [pack] in which it runs. O(packs * members + rows * pipelines).
[[nodiscard]] inline double seconds_with_barriers(const Schedule& schedule,
                                                  std::span<const std::uint32_t> row) {
  if (row.empty()) return 0.0;
  const std::size_t rows = *std::max_element(row.begin(), row.end()) + std::size_t{1};
  std::vector<double> work(rows * schedule.pipelines, 0.0), most(rows, 0.0);
  for (std::size_t k = 0; k < row.size(); ++k) {
    const double seconds = schedule.forward_times.seconds[k] + schedule.backward_times.seconds[k];
    for (const std::uint32_t p : schedule.forward.members[k]) {
      double& own = work[row[k] * schedule.pipelines + p];
      own += seconds;
      most[row[k]] = std::max(most[row[k]], own);
    }
  }
  return std::accumulate(most.begin(), most.end(), 0.0);
}

}  // namespace slimpack
