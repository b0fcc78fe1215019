#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/dag/graph.hpp"

namespace slimpack {

/// Start and finish of every task, at its position in the graph's topological order.
template <class Time = double>
struct TaskTimes {
  std::vector<Time> start;
  std::vector<Time> finish;
  Time total = Time{};  ///< the latest finish
};

/// Earliest times of all tasks (SlimPack, Eq. 1 and 2, Algorithm 1): a task starts when all its predecessors are
/// done and their lags have passed.
/// @param weights duration of each task, at its position. @param[out] times reused memory.
/// @throws InvalidInput if there are not as many weights as tasks.
/// Complexity: O(tasks + edges), one pass over consecutive memory.
template <class Time>
void calculate_times(const TaskGraph& graph, std::span<const Time> weights, TaskTimes<Time>& times) {
  require(weights.size() == graph.size(), weights.size(), " weights for ", graph.size(), " tasks");
  times.start.resize(graph.size());
  times.finish.resize(graph.size());
  times.total = Time{};
  for (std::size_t p = 0; p < graph.size(); ++p) {
    Time start{};
    for (const TaskGraph::Predecessor& before : graph.predecessors(p)) {
      start = std::max(start, static_cast<Time>(times.finish[before.task] + static_cast<Time>(before.lag)));
    }
    times.start[p] = start;
    times.finish[p] = start + weights[p];
    times.total = std::max(times.total, times.finish[p]);
  }
}

/// Tasks of a longest path, first to last, as positions: each starts when the one before it (and its lag) ends.
/// Empty for an empty graph. O(path length * degree).
template <class Time>
[[nodiscard]] std::vector<TaskId> critical_path(const TaskGraph& graph, const TaskTimes<Time>& times) {
  std::vector<TaskId> path;
  if (graph.size() == 0) return path;
  auto at = static_cast<TaskId>(std::max_element(times.finish.begin(), times.finish.end()) - times.finish.begin());
  for (bool found = true; found;) {
    path.push_back(at);
    found = false;
    for (const TaskGraph::Predecessor& before : graph.predecessors(at)) {
      if (static_cast<Time>(times.finish[before.task] + static_cast<Time>(before.lag)) == times.start[at]) {
        at = before.task;
        found = true;
        break;
      }
    }
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace slimpack
