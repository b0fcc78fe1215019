#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/dag/graph.hpp"

namespace slimpack {

namespace detail {

/// Kahn's algorithm, first in first out. Calls `on_edge(position of from, slot, to, predecessors that to
/// still waits for)` for every edge that it follows.
/// @param[in,out] waiting number of predecessors of each task; what is left above 0 lies on or behind a
/// cycle.
/// @param[out] order the tasks in topological order; fewer than there are if the graph has a cycle.
template <class OnEdge>
void run_kahn(const Graph& graph, std::vector<std::uint32_t>& waiting, std::vector<TaskId>& order,
              OnEdge&& on_edge) {
  order.resize(graph.size());
  std::size_t ready = 0;
  for (std::size_t t = 0; t < graph.size(); ++t) {
    if (waiting[t] == 0) order[ready++] = static_cast<TaskId>(t);
  }
  for (std::size_t next = 0; next < ready; ++next) {
    std::size_t slot = graph.first_slot(order[next]);
    for (const TaskId to : graph.successors(order[next])) {
      const std::uint32_t left = --waiting[to];
      on_edge(static_cast<TaskId>(next), slot++, to, left);
      if (left == 0) order[ready++] = to;
    }
  }
  order.resize(ready);
}

inline void count_predecessors(const Graph& graph, std::vector<std::uint32_t>& counts) {
  counts.assign(graph.size(), 0);
  for (const TaskId to : graph.targets()) ++counts[to];
}

/// The tasks on one cycle, each before the one that waits for it. Every task that still waits has a
/// predecessor that still waits; walking back must meet a task again.
template <class Count>
std::vector<TaskId> find_cycle(const Graph& graph, const std::vector<Count>& waiting) {
  constexpr TaskId none = ~TaskId{0};
  std::vector<TaskId> before(graph.size(), none);
  TaskId at = none;
  for (std::size_t t = 0; t < graph.size(); ++t) {
    if (waiting[t] == 0) continue;
    for (const TaskId to : graph.successors(static_cast<TaskId>(t))) {
      if (waiting[to] > 0) before[at = to] = static_cast<TaskId>(t);
    }
  }
  if (at == none) return {};
  std::vector<std::uint8_t> seen(graph.size(), 0);
  for (; seen[at] == 0; at = before[at]) seen[at] = 1;
  std::vector<TaskId> members{at};
  for (TaskId t = before[at]; t != at; t = before[t]) members.push_back(t);
  std::reverse(members.begin(), members.end());
  return members;
}

template <class Count, class Name>
[[noreturn]] void throw_cycle(const Graph& graph, const std::vector<Count>& waiting, Name&& name) {
  const std::vector<TaskId> members = find_cycle(graph, waiting);
  constexpr std::size_t most = 32;  // a line stays readable
  std::string text = "tasks wait for each other: ";
  for (std::size_t i = 0; i < members.size() && i < most; ++i) text += std::string(name(members[i])) + " -> ";
  if (members.size() > most) text += concat("(", members.size() - most, " more) -> ");
  throw InvalidInput(text + std::string(name(members.front())) + "; expected a graph without cycles");
}

}  // namespace detail

/// Topological order of a graph's tasks (Kahn, first in first out: tasks of one depth stand together).
/// @param name says a task's name for the message about a cycle: `std::string name(TaskId)`.
/// @throws InvalidInput naming the tasks of one cycle (the first 32 of them).
/// Complexity: O(tasks + edges).
template <class Name>
[[nodiscard]] std::vector<TaskId> topological_order(const Graph& graph, Name&& name) {
  std::vector<std::uint32_t> waiting;
  detail::count_predecessors(graph, waiting);
  std::vector<TaskId> order;
  detail::run_kahn(graph, waiting, order, [](TaskId, std::size_t, TaskId, std::uint32_t) {});
  if (order.size() < graph.size()) detail::throw_cycle(graph, waiting, name);
  return order;
}

/// Topological order; a cycle is named by numbers.
[[nodiscard]] inline std::vector<TaskId> topological_order(const Graph& graph) {
  return topological_order(graph, [](TaskId task) { return std::to_string(task); });
}

}  // namespace slimpack
