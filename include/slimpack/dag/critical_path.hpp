#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/dag/task_graph.hpp"
#include "slimpack/dag/timeline.hpp"

namespace slimpack {

/// The critical path: tasks, first to last, as positions, of which each starts the moment the one before it
/// is done and the lag of their edge has passed; the first starts at 0 and the last ends at the total.
/// Where several tasks qualify, the earliest position ends the path and the first stored predecessor
/// continues it. Empty without tasks.
/// @param lags delay of each edge, by slot, the same that `times` was calculated with; none if empty.
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

/// Slack of every task, by position: how much later it could finish without moving the total. 0 on the
/// critical path (with floating-point times, up to rounding), never negative.
/// @param weights duration of each task. @param lags delay of each edge, by slot; none if empty. Both the
/// same that `times` was calculated with.
/// @throws InvalidInput if times, weights or lags don't fit the graph.
/// Complexity: O(tasks + edges).
template <class Time>
[[nodiscard]] std::vector<Time> calculate_slack(const TaskGraph& graph, const std::vector<Time>& weights,
                                                const TaskTimes<Time>& times,
                                                const std::vector<Time>& lags = {}) {
  detail::require_sizes(graph, weights.size(), lags.size());
  detail::require_sizes(graph, times.finish.size(), 0);
  std::vector<Time> slack(graph.size(), times.total);  // until its task is reached, the latest finish
  for (std::size_t p = graph.size(); p-- > 0;) {
    const Time latest_start = slack[p] - weights[p];
    std::size_t slot = graph.first_slot(p);
    for (const TaskId before : graph.predecessors(p)) {
      const Time lag = lags.empty() ? Time{} : lags[slot++];
      slack[before] = std::min(slack[before], static_cast<Time>(latest_start - lag));
    }
    slack[p] = std::max(Time{}, static_cast<Time>(slack[p] - times.finish[p]));
  }
  return slack;
}

}  // namespace slimpack
