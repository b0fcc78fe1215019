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

/// The tasks on one cycle, each before the one that waits for it.
/// @param waiting number of unfinished predecessors of each task after Kahn's algorithm has ended. Every task
/// that still waits has a predecessor that still waits, so walking back must return to a task already seen.
inline std::vector<TaskId> find_cycle(const Graph& graph, const std::vector<std::uint32_t>& waiting) {
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

template <class Name>
[[noreturn]] void throw_cycle(const Graph& graph, const std::vector<std::uint32_t>& waiting, Name&& name) {
  const std::vector<TaskId> members = find_cycle(graph, waiting);
  constexpr std::size_t most = 32;  // keeps the message readable
  std::string text = "tasks wait for each other: ";
  for (std::size_t i = 0; i < members.size() && i < most; ++i) text += std::string(name(members[i])) + " -> ";
  if (members.size() > most) text += concat("(", members.size() - most, " more) -> ");
  throw InvalidInput(text + std::string(name(members.front())) + "; expected a graph without cycles");
}

}  // namespace detail

/// Topological order of a graph's tasks by Kahn's algorithm with a queue: tasks of equal depth are adjacent.
/// @param name gives a task's name for the message about a cycle: `std::string name(TaskId)`.
/// @throws InvalidInput naming the tasks of one cycle (the first 32 of them).
/// Complexity: O(tasks + edges).
template <class Name>
[[nodiscard]] std::vector<TaskId> topological_order(const Graph& graph, Name&& name) {
  std::vector<std::uint32_t> waiting(graph.size(), 0);
  for (const TaskId to : graph.targets()) ++waiting[to];
  std::vector<TaskId> order;
  order.reserve(graph.size());
  for (std::size_t t = 0; t < graph.size(); ++t) {
    if (waiting[t] == 0) order.push_back(static_cast<TaskId>(t));
  }
  for (std::size_t next = 0; next < order.size(); ++next) {
    for (const TaskId to : graph.successors(order[next])) {
      if (--waiting[to] == 0) order.push_back(to);
    }
  }
  if (order.size() < graph.size()) detail::throw_cycle(graph, waiting, name);
  return order;
}

/// Topological order; messages name tasks by number.
[[nodiscard]] inline std::vector<TaskId> topological_order(const Graph& graph) {
  return topological_order(graph, [](TaskId task) { return std::to_string(task); });
}

}  // namespace slimpack
