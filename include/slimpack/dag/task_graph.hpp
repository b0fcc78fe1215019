#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/dag/graph.hpp"
#include "slimpack/dag/order.hpp"

namespace slimpack {

/// An acyclic graph whose tasks are renumbered in topological order, stored by predecessors (CSR). A task's
/// new number is its position. Every edge leads to a higher position, so algorithms make one pass over
/// consecutive memory. Callers keep weights in arrays, by position for tasks and by slot for edges;
/// `arrange_tasks` and `arrange_edges` put them into that order.
class TaskGraph {
 public:
  [[nodiscard]] std::size_t size() const { return original_.size(); }
  [[nodiscard]] std::size_t edges() const { return predecessors_.size(); }

  /// Positions of the tasks that the one at `position` waits for, in ascending order; all are smaller.
  [[nodiscard]] std::span<const TaskId> predecessors(std::size_t position) const {
    assert(position < size());
    return {predecessors_.data() + offsets_[position], predecessors_.data() + offsets_[position + 1]};
  }
  /// Slot of the first edge into the task at `position`; its others follow, in the order of `predecessors`.
  [[nodiscard]] std::size_t first_slot(std::size_t position) const { return offsets_[position]; }

  /// First slots of all positions, then the number of edges: for loops that can't afford a call per task.
  [[nodiscard]] std::span<const std::uint32_t> offsets() const { return offsets_; }
  /// Predecessors of all positions, by slot.
  [[nodiscard]] std::span<const TaskId> predecessors() const { return predecessors_; }

  /// The caller's number of the task at a position.
  [[nodiscard]] TaskId original(std::size_t position) const { return original_[position]; }
  /// Position of the caller's task.
  [[nodiscard]] TaskId position(TaskId task) const { return position_[task]; }
  /// The caller's number of the edge at a slot.
  [[nodiscard]] EdgeId edge_at(std::size_t slot) const { return edge_[slot]; }

  /// Puts values by task into the order of positions.
  /// @throws InvalidInput unless there is one for each task.
  template <class T>
  [[nodiscard]] std::vector<T> arrange_tasks(const std::vector<T>& by_task) const {
    require(by_task.size() == size(), by_task.size(), " values for ", size(),
            " tasks; expected one for each");
    std::vector<T> result(size());
    for (std::size_t p = 0; p < size(); ++p) result[p] = by_task[original_[p]];
    return result;
  }
  /// Puts values by edge into the order of slots. @throws InvalidInput unless there is one for each edge.
  template <class T>
  [[nodiscard]] std::vector<T> arrange_edges(const std::vector<T>& by_edge) const {
    require(by_edge.size() == edges(), by_edge.size(), " values for ", edges(),
            " edges; expected one for each");
    std::vector<T> result(edges());
    for (std::size_t slot = 0; slot < edges(); ++slot) result[slot] = by_edge[edge_[slot]];
    return result;
  }

 private:
  template <class Name>
  friend TaskGraph build_task_graph(std::size_t tasks, std::span<const Edge> edges, Name&& name);

  void store(const Graph& graph);

  std::vector<std::uint32_t> offsets_{0};  // [position + 1]
  std::vector<TaskId> predecessors_;       // [slot]
  std::vector<EdgeId> edge_;               // [slot]
  std::vector<TaskId> original_;           // [position]
  std::vector<TaskId> position_;           // [task]
};

/// Stores the edges of `graph` by predecessors, for the order in `original_`.
inline void TaskGraph::store(const Graph& graph) {
  position_.resize(size());
  for (std::size_t p = 0; p < size(); ++p) position_[original_[p]] = static_cast<TaskId>(p);
  offsets_.assign(size() + 1, 0);
  for (const TaskId to : graph.targets()) ++offsets_[position_[to] + 1];
  for (std::size_t p = 0; p < size(); ++p) offsets_[p + 1] += offsets_[p];
  predecessors_.resize(graph.edges());
  edge_.resize(graph.edges());
  std::vector<std::uint32_t> next(offsets_.begin(), offsets_.end() - 1);  // [position] its next free slot
  for (std::size_t p = 0; p < size(); ++p) {
    std::size_t from_slot = graph.first_slot(original_[p]);
    for (const TaskId to : graph.successors(original_[p])) {
      const std::uint32_t slot = next[position_[to]]++;
      predecessors_[slot] = static_cast<TaskId>(p);
      edge_[slot] = graph.edge_at(from_slot++);
    }
  }
}

/// Builds a task graph from a list of edges, in any order, repetitions allowed.
/// @param name gives a task's name for the message about a cycle: `std::string name(TaskId)`.
/// @throws InvalidInput naming the tasks of one cycle (the first 32 of them), an edge to or from a task that
/// doesn't exist, or too many tasks or edges.
/// Complexity: O(tasks + edges).
template <class Name>
[[nodiscard]] TaskGraph build_task_graph(std::size_t tasks, std::span<const Edge> edges, Name&& name) {
  const Graph graph = build_graph(tasks, edges);
  TaskGraph result;
  result.original_ = topological_order(graph, name);
  result.store(graph);
  return result;
}

/// The same; messages name tasks by number.
[[nodiscard]] inline TaskGraph build_task_graph(std::size_t tasks, std::span<const Edge> edges) {
  return build_task_graph(tasks, edges, [](TaskId task) { return std::to_string(task); });
}

}  // namespace slimpack
