#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/dag/task_graph.hpp"
#include "slimpack/dag/task_times.hpp"

namespace slimpack {

/// The critical path, as positions from its first task to its last: each task starts at the moment when the
/// one before it is done and the lag of their edge has passed; the first starts at 0 and the last ends at the
/// total. Where several tasks qualify, the lowest position ends the path, and the first stored predecessor
/// comes before each task. Empty if there are no tasks.
/// @param lags delay of each edge, by slot, as `times` was calculated with; none if empty.
/// @throws InvalidInput if times or lags don't fit the graph.
/// Complexity: O(tasks) for the last task, then O(edges into the path's tasks).
template <class Time>
[[nodiscard]] std::vector<TaskId> critical_path(const TaskGraph& graph, const TaskTimes<Time>& times,
                                                const std::vector<Time>& lags = {}) {
  detail::require_sizes(graph, times.finish.size(), lags.size());
  std::vector<TaskId> path;
  if (graph.size() == 0) return path;
  auto at =
      static_cast<TaskId>(std::max_element(times.finish.begin(), times.finish.end()) - times.finish.begin());
  for (bool found = true; found;) {
    path.push_back(at);
    found = false;
    std::size_t slot = graph.first_slot(at);
    for (const TaskId before : graph.predecessors(at)) {
      const Time lag = lags.empty() ? Time{} : lags[slot++];
      if (static_cast<Time>(times.finish[before] + lag) != times.start[at]) continue;
      at = before;
      found = true;
      break;
    }
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace slimpack
