#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/dag/task_graph.hpp"
#include "slimpack/dag/timeline.hpp"

namespace slimpack {

/// Time of one resource (a pipeline stage), or the sum over several: busy, and idle by cause. The four
/// causes sum to all idle time between 0 and the end of the timeline.
template <class Time = double>
struct BubbleSplit {
  Time busy{};
  Time warm_up{};     ///< before the resource's first task
  Time dependency{};  ///< between tasks, and there with balanced durations, too
  Time imbalance{};   ///< between tasks, but gone if tasks of a kind took equally long
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

/// Splits the idle time of a resource by cause. The gap in front of a task is `dependency` as far as it is
/// there in the balanced timeline, too, and `imbalance` for the rest.
/// @param tasks positions of the resource's tasks in the order in which it runs them, one at a time.
/// @param times the timeline. @param balanced the timeline of the same graph, with the mean duration of its
/// kind on every task (`mean_weights`); pass `times` again to call every gap a dependency.
/// @returns all zero but `warm_up` for a resource without tasks: it is idle all the time.
/// @throws InvalidInput if a task starts before the one in front of it is done, or the timelines differ in
/// size.
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
            " of a resource starts before the one in front of it is done; "
            "expected an edge between them");
    const Time kept =
        std::clamp(static_cast<Time>(balanced.start[task] - balanced.finish[before]), Time{}, gap);
    split.dependency += kept;
    split.imbalance += gap - kept;
    split.busy += times.finish[task] - times.start[task];
  }
  return split;
}

/// Mean duration of its kind for every task.
/// @param weights duration of each task. @param kinds kind of each task, below `number_of_kinds`; a kind is
/// what should take equally long, such as the forward passes of one stage.
/// @throws InvalidInput unless there is a kind in range for each weight. O(tasks + kinds).
template <class Time>
[[nodiscard]] std::vector<Time> mean_weights(std::span<const Time> weights,
                                             std::span<const std::uint32_t> kinds,
                                             std::size_t number_of_kinds) {
  require(weights.size() == kinds.size(), kinds.size(), " kinds for ", weights.size(),
          " tasks; expected one for each");
  std::vector<Time> sum(number_of_kinds, Time{});
  std::vector<std::size_t> count(number_of_kinds, 0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    require(kinds[i] < number_of_kinds, "kind ", kinds[i], " of task ", i, "; expected below ",
            number_of_kinds);
    sum[kinds[i]] += weights[i];
    ++count[kinds[i]];
  }
  std::vector<Time> result(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    result[i] = sum[kinds[i]] / static_cast<Time>(count[kinds[i]]);
  }
  return result;
}

}  // namespace slimpack
