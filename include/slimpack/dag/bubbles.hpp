#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "slimpack/core/error.hpp"
#include "slimpack/dag/graph.hpp"
#include "slimpack/dag/task_times.hpp"

namespace slimpack {

/// Time of one resource (a pipeline stage), or the sum over several: busy, and idle by cause. The four
/// causes add up to all idle time between 0 and the end of the timeline.
template <class Time = double>
struct BubbleSplit {
  Time busy{};
  Time warm_up{};     ///< before the resource's first task
  Time dependency{};  ///< between tasks, and also idle if tasks of a kind took equally long
  Time imbalance{};   ///< between tasks, but busy if tasks of a kind took equally long
  Time cool_down{};   ///< after the resource's last task

  [[nodiscard]] constexpr Time idle() const { return warm_up + dependency + imbalance + cool_down; }
  /// Idle share of all time; 0 where there is none.
  [[nodiscard]] constexpr double ratio() const {
    const auto all = static_cast<double>(busy + idle());
    return all > 0.0 ? static_cast<double>(idle()) / all : 0.0;
  }
  constexpr BubbleSplit& operator+=(const BubbleSplit& other) {
    busy += other.busy;
    warm_up += other.warm_up;
    dependency += other.dependency;
    imbalance += other.imbalance;
    cool_down += other.cool_down;
    return *this;
  }
};

/// Splits the idle time of a resource by cause. The gap before a task counts as `dependency` up to the size
/// it has in the balanced timeline, and the rest as `imbalance`.
/// @param tasks positions of the resource's tasks in the order in which it runs them, one at a time.
/// @param times the timeline. @param balanced the timeline of the same graph in which every task takes the
/// mean duration of its kind, a kind being what should take equally long, such as the forward passes of one
/// stage. If it is `times` itself, every gap is a dependency.
/// @returns for a resource without tasks, only `warm_up`, which is the whole timeline.
/// @throws InvalidInput if a task starts before the previous one is done, or the timelines differ in size.
/// Complexity: O(tasks of the resource).
template <class Time>
[[nodiscard]] BubbleSplit<Time> split_bubbles(std::span<const TaskId> tasks, const TaskTimes<Time>& times,
                                              const TaskTimes<Time>& balanced) {
  require(times.finish.size() == balanced.finish.size(), "timelines of ", times.finish.size(), " and ",
          balanced.finish.size(), " tasks; expected two of the same graph");
  BubbleSplit<Time> split;
  if (tasks.empty()) {
    split.warm_up = times.total;
    return split;
  }
  split.warm_up = times.start[tasks.front()];
  split.cool_down = times.total - times.finish[tasks.back()];
  split.busy = times.finish[tasks.front()] - times.start[tasks.front()];
  for (std::size_t i = 1; i < tasks.size(); ++i) {
    const TaskId task = tasks[i], before = tasks[i - 1];
    const Time gap = times.start[task] - times.finish[before];
    require(gap >= Time{}, "the task at place ", i,
            " of a resource starts before the previous one is done; "
            "expected an edge between them");
    const Time kept =
        std::clamp(static_cast<Time>(balanced.start[task] - balanced.finish[before]), Time{}, gap);
    split.dependency += kept;
    split.imbalance += gap - kept;
    split.busy += times.finish[task] - times.start[task];
  }
  return split;
}

}  // namespace slimpack
