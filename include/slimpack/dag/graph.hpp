#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"

namespace slimpack {

/// Index of a task in a task graph.
using TaskId = std::uint32_t;
/// Index of a dependency among those a graph was built from.
using EdgeId = std::uint32_t;

/// A dependency: `to` can't begin before `from` is done.
struct Edge {
  TaskId from = 0;
  TaskId to = 0;

  friend bool operator==(const Edge&, const Edge&) = default;
};

/// A directed graph of tasks, stored by successors (CSR). It holds no weights: those stand beside it, by
/// task or by edge, so that durations change without rebuilding.
class Graph {
 public:
  [[nodiscard]] std::size_t size() const { return offsets_.size() - 1; }
  [[nodiscard]] std::size_t edges() const { return targets_.size(); }

  /// Tasks that wait for `task`, in the order in which their edges were given; repetitions are kept.
  [[nodiscard]] std::span<const TaskId> successors(TaskId task) const {
    assert(task < size());
    return {targets_.data() + offsets_[task], targets_.data() + offsets_[task + 1]};
  }

  /// Slot of a task's first out-edge; its others follow. Slots count from 0 to edges() - 1.
  [[nodiscard]] std::size_t first_slot(TaskId task) const { return offsets_[task]; }

  /// Number, in the order in which the edges were given, of the edge at a slot.
  [[nodiscard]] EdgeId edge_at(std::size_t slot) const {
    return given_.empty() ? static_cast<EdgeId>(slot) : given_[slot];
  }

  /// Successors of all tasks, by slot.
  [[nodiscard]] std::span<const TaskId> targets() const { return targets_; }

 private:
  template <class EachEdge>
  friend void build_graph_by(std::size_t tasks, EachEdge&& each_edge, Graph& graph);
  friend void build_graph(std::size_t tasks, std::span<const Edge> edges, Graph& graph);

  std::vector<std::uint32_t> offsets_{0};  // [task + 1]
  std::vector<TaskId> targets_;            // [slot]
  std::vector<EdgeId> given_;              // [slot], empty where edges came sorted by `from`
};

namespace detail {

inline void require_tasks(const Edge& edge, std::size_t number, std::size_t tasks) {
  require(edge.from < tasks && edge.to < tasks, "edge ", number, " goes from task ", edge.from, " to task ",
          edge.to, "; expected tasks below ", tasks);
}

}  // namespace detail

/// Builds a graph from edges that are enumerated twice: once to count, once to store. No list of them is
/// needed.
/// @param tasks number of tasks. @param each_edge calls its argument, `visit(TaskId from, TaskId to)`, once
/// for each edge, the same edges in the same order at each call. Repetitions are allowed.
/// @param[out] graph reused memory.
/// @throws InvalidInput naming an edge to or from a task that doesn't exist, or too many tasks or edges.
/// Complexity: O(tasks + edges); fastest where edges come sorted by `from`.
template <class EachEdge>
void build_graph_by(std::size_t tasks, EachEdge&& each_edge, Graph& graph) {
  require(tasks < 0xffffffffu, tasks, " tasks; expected fewer than 4294967295");
  std::vector<std::uint32_t>& offsets = graph.offsets_;
  offsets.assign(tasks + 1, 0);
  std::size_t edges = 0;
  TaskId previous = 0;
  bool sorted = true;
  each_edge([&](TaskId from, TaskId to) {
    detail::require_tasks({from, to}, edges, tasks);
    ++offsets[from + 1];
    ++edges;
    sorted = sorted && from >= previous;
    previous = from;
  });
  require(edges < 0xffffffffu, edges, " edges; expected fewer than 4294967295");
  for (std::size_t t = 0; t < tasks; ++t) offsets[t + 1] += offsets[t];
  graph.targets_.resize(edges);
  graph.given_.resize(sorted ? 0 : edges);
  EdgeId number = 0;
  if (sorted) {
    each_edge([&](TaskId, TaskId to) { graph.targets_[number++] = to; });
    return;
  }
  each_edge([&](TaskId from, TaskId to) {  // moves every offset to the next task's, which is undone below
    const std::uint32_t slot = offsets[from]++;
    graph.targets_[slot] = to;
    graph.given_[slot] = number++;
  });
  std::copy_backward(offsets.begin(), offsets.end() - 1, offsets.end());
  offsets.front() = 0;
}

/// Builds a graph from a list of edges, in any order, repetitions allowed. @param[out] graph reused memory.
/// @throws InvalidInput naming an edge to or from a task that doesn't exist, or too many tasks or edges.
/// Complexity: O(tasks + edges); one pass where edges come sorted by `from`.
inline void build_graph(std::size_t tasks, std::span<const Edge> edges, Graph& graph) {
  require(tasks < 0xffffffffu && edges.size() < 0xffffffffu, tasks, " tasks and ", edges.size(),
          " edges; expected fewer than 4294967295");
  graph.offsets_.assign(tasks + 1, 0);
  graph.targets_.resize(edges.size());
  graph.given_.clear();
  std::uint32_t* const ends = graph.offsets_.data() + 1;
  std::size_t e = 0;
  for (TaskId previous = 0; e < edges.size() && edges[e].from >= previous; ++e) {
    detail::require_tasks(edges[e], e, tasks);
    previous = edges[e].from;
    graph.targets_[e] = edges[e].to;
    ends[previous] = static_cast<std::uint32_t>(e + 1);
  }
  if (e == edges.size()) {
    for (std::size_t t = 0; t < tasks; ++t)
      graph.offsets_[t + 1] = std::max(graph.offsets_[t + 1], graph.offsets_[t]);
    return;
  }
  build_graph_by(
      tasks,
      [edges](auto&& visit) {
        for (const Edge& edge : edges) visit(edge.from, edge.to);
      },
      graph);
}

/// The same, into a new graph.
[[nodiscard]] inline Graph build_graph(std::size_t tasks, std::span<const Edge> edges) {
  Graph graph;
  build_graph(tasks, edges, graph);
  return graph;
}

}  // namespace slimpack
