#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/dag/task_graph.hpp"

namespace slimpack {

/// Start and finish of every task, at its position in the graph's topological order.
template <class Time = double>
struct TaskTimes {
  std::vector<Time> start;
  std::vector<Time> finish;
  Time total = Time{};  ///< the latest finish; 0 without tasks
};

namespace detail {

/// One linear sweep. `start` may be null; `lags` is null if there are none.
template <class Time>
Time sweep_times(const TaskGraph& graph, const Time* weights, const Time* lags, Time* start, Time* finish) {
  const std::uint32_t* const offsets = graph.offsets().data();
  const TaskId* const predecessors = graph.predecessors().data();
  const auto sweep = [&](auto ready_after) {
    Time total{};
    std::uint32_t slot = 0;
    for (std::size_t p = 0; p < graph.size(); ++p) {
      Time begin{};
      for (const std::uint32_t end = offsets[p + 1]; slot < end; ++slot)
        begin = std::max(begin, ready_after(slot));
      if (start != nullptr) start[p] = begin;
      finish[p] = begin + weights[p];
      total = std::max(total, finish[p]);
    }
    return total;
  };
  if (lags == nullptr) return sweep([=](std::uint32_t slot) { return finish[predecessors[slot]]; });
  return sweep(
      [=](std::uint32_t slot) { return static_cast<Time>(finish[predecessors[slot]] + lags[slot]); });
}

inline void require_sizes(const TaskGraph& graph, std::size_t weights, std::size_t lags) {
  require(weights == graph.size(), weights, " weights for ", graph.size(), " tasks; expected one for each");
  require(lags == 0 || lags == graph.edges(), lags, " lags for ", graph.edges(),
          " edges; expected one for each, or none");
}

}  // namespace detail

/// Earliest start and finish of all tasks (SlimPack, Eq. 1 and 2, Algorithm 1): a task starts when all its
/// predecessors are done and the lags of their edges have passed, and not before 0.
/// @param weights duration of each task, by position. @param lags delay of each edge, by slot; none if
/// empty.
/// @param[out] times reused memory.
/// @throws InvalidInput if weights or lags don't fit the graph.
/// Complexity: O(tasks + edges), one pass over consecutive memory.
template <class Time>
void calculate_times(const TaskGraph& graph, std::span<const Time> weights, std::span<const Time> lags,
                     TaskTimes<Time>& times) {
  detail::require_sizes(graph, weights.size(), lags.size());
  times.start.resize(graph.size());
  times.finish.resize(graph.size());
  times.total = detail::sweep_times(graph, weights.data(), lags.empty() ? nullptr : lags.data(),
                                    times.start.data(), times.finish.data());
}

/// One call of `calculate_times`.
template <class Time>
[[nodiscard]] TaskTimes<Time> calculate_times(const TaskGraph& graph, const std::vector<Time>& weights,
                                              const std::vector<Time>& lags = {}) {
  TaskTimes<Time> times;
  calculate_times<Time>(graph, std::span<const Time>(weights), std::span<const Time>(lags), times);
  return times;
}

/// The latest finish alone, without the starts. @param[out] finish reused memory, by
/// position.
/// @throws InvalidInput if weights or lags don't fit the graph. O(tasks + edges).
template <class Time>
Time longest_path(const TaskGraph& graph, std::span<const Time> weights, std::span<const Time> lags,
                  std::vector<Time>& finish) {
  detail::require_sizes(graph, weights.size(), lags.size());
  finish.resize(graph.size());
  return detail::sweep_times<Time>(graph, weights.data(), lags.empty() ? nullptr : lags.data(), nullptr,
                                   finish.data());
}

}  // namespace slimpack
