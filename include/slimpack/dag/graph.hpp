#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"

namespace slimpack {

/// Index of a task in a task graph.
using TaskId = std::uint32_t;

/// A dependency: `to` can't begin before `from` is done, and `lag` seconds have passed.
struct Edge {
  TaskId from = 0;
  TaskId to = 0;
  double lag = 0.0;
};

/// A task graph whose tasks are numbered in topological order, stored by predecessors (CSR). Weights stand beside
/// it: durations change without rebuilding. Algorithms are one pass over consecutive memory.
class TaskGraph {
 public:
  struct Predecessor {
    TaskId task;  ///< position of the predecessor, smaller than the task's own
    double lag;
  };

  [[nodiscard]] std::size_t size() const { return original_.size(); }
  [[nodiscard]] std::size_t edges() const { return predecessors_.size(); }
  [[nodiscard]] std::span<const Predecessor> predecessors(std::size_t position) const {
    return {predecessors_.data() + offsets_[position], predecessors_.data() + offsets_[position + 1]};
  }
  /// The caller's number of the task at a position.
  [[nodiscard]] TaskId original(std::size_t position) const { return original_[position]; }
  /// Position of the caller's task.
  [[nodiscard]] TaskId position(TaskId task) const { return position_[task]; }

 private:
  friend class TaskGraphBuilder;
  std::vector<std::uint32_t> offsets_{0};
  std::vector<Predecessor> predecessors_;
  std::vector<TaskId> original_;
  std::vector<TaskId> position_;
};

/// Builds task graphs; keeps its memory between calls.
class TaskGraphBuilder {
 public:
  /// Numbers the tasks topologically (Kahn) and stores their predecessors in that order.
  /// @param tasks number of tasks. @param edges between tasks 0 … tasks - 1, in any order, repetitions allowed.
  /// @param name says a task's name for the message about a cycle: `std::string name(TaskId)`.
  /// @throws InvalidInput naming the tasks of a cycle, or an edge's task that doesn't exist.
  /// Complexity: O(tasks + edges).
  template <class Name>
  [[nodiscard]] TaskGraph build(std::size_t tasks, std::span<const Edge> edges, Name&& name) {
    for (const Edge& edge : edges) {
      require(edge.from < tasks && edge.to < tasks, "edge from task ", edge.from, " to task ", edge.to,
              "; expected tasks below ", tasks);
    }
    count(tasks, edges);
    TaskGraph graph;
    order(tasks, graph);
    if (graph.original_.size() < tasks) throw InvalidInput("tasks wait for each other: " + cycle(tasks, edges, name));
    store(tasks, edges, graph);
    return graph;
  }

 private:
  void count(std::size_t tasks, std::span<const Edge> edges) {
    offsets_.assign(tasks + 1, 0);
    waiting_.assign(tasks, 0);
    for (const Edge& edge : edges) {
      ++offsets_[edge.from + 1];
      ++waiting_[edge.to];
    }
    for (std::size_t t = 0; t < tasks; ++t) offsets_[t + 1] += offsets_[t];
    targets_.resize(edges.size());
    cursor_.assign(offsets_.begin(), offsets_.end());
    for (const Edge& edge : edges) targets_[cursor_[edge.from]++] = edge.to;
  }

  void order(std::size_t tasks, TaskGraph& graph) {
    indegree_ = waiting_;
    graph.original_.reserve(tasks);
    graph.position_.assign(tasks, 0);
    for (TaskId t = 0; t < tasks; ++t) {
      if (waiting_[t] == 0) graph.original_.push_back(t);
    }
    for (std::size_t next = 0; next < graph.original_.size(); ++next) {
      const TaskId from = graph.original_[next];
      graph.position_[from] = static_cast<TaskId>(next);
      for (std::uint32_t e = offsets_[from]; e < offsets_[from + 1]; ++e) {
        if (--waiting_[targets_[e]] == 0) graph.original_.push_back(targets_[e]);
      }
    }
  }

  void store(std::size_t tasks, std::span<const Edge> edges, TaskGraph& graph) {
    graph.offsets_.assign(tasks + 1, 0);
    for (std::size_t p = 0; p < tasks; ++p) graph.offsets_[p + 1] = graph.offsets_[p] + indegree_[graph.original_[p]];
    graph.predecessors_.resize(edges.size());
    cursor_.assign(graph.offsets_.begin(), graph.offsets_.end());
    for (const Edge& edge : edges) {
      graph.predecessors_[cursor_[graph.position_[edge.to]]++] = {graph.position_[edge.from], edge.lag};
    }
  }

  /// Names of the tasks on one cycle. Every task that still waits has a predecessor that still waits; walking back
  /// must meet a task again.
  template <class Name>
  [[nodiscard]] std::string cycle(std::size_t tasks, std::span<const Edge> edges, Name&& name) const {
    constexpr TaskId none = ~TaskId{0};
    std::vector<TaskId> before(tasks, none);
    TaskId at = none;
    for (const Edge& edge : edges) {
      if (waiting_[edge.from] > 0 && waiting_[edge.to] > 0) before[at = edge.to] = edge.from;
    }
    std::vector<std::uint8_t> seen(tasks, 0);
    for (; seen[at] == 0; at = before[at]) seen[at] = 1;
    std::vector<TaskId> members{at};
    for (TaskId t = before[at]; t != at; t = before[t]) members.push_back(t);
    std::string text = name(at);
    for (std::size_t i = members.size(); i-- > 0;) text += " -> " + std::string(name(members[i]));
    return text;
  }

  std::vector<std::uint32_t> offsets_, cursor_, indegree_, waiting_;
  std::vector<TaskId> targets_;
};

/// One call of TaskGraphBuilder, with numbers for names.
[[nodiscard]] inline TaskGraph build_task_graph(std::size_t tasks, std::span<const Edge> edges) {
  return TaskGraphBuilder().build(tasks, edges, [](TaskId task) { return std::to_string(task); });
}

}  // namespace slimpack
