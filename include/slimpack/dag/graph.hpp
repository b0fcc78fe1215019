#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <numeric>
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

namespace detail {

/// Where each task's edges stand in a list of edges in the order of `from`, and how many go to it.
struct EdgeIndex {
  std::vector<std::uint32_t> offsets{0};       // [task + 1]
  std::vector<std::uint8_t> few_predecessors;  // [task], empty if one has more than 255
  bool upward = true;                          // every edge goes to a higher number
};

}  // namespace detail

/// A directed graph of tasks, stored by successors (CSR). It holds no weights: those stand beside it, by
/// task or by edge, so that durations change without rebuilding.
class Graph {
 public:
  [[nodiscard]] std::size_t size() const { return index_.offsets.size() - 1; }
  [[nodiscard]] std::size_t edges() const { return targets_.size(); }

  /// Tasks that wait for `task`, in the order in which their edges were given; repetitions are kept.
  [[nodiscard]] std::span<const TaskId> successors(TaskId task) const {
    assert(task < size());
    return {targets_.data() + index_.offsets[task], targets_.data() + index_.offsets[task + 1]};
  }

  /// Slot of a task's first out-edge; its others follow. Slots count from 0 to edges() - 1.
  [[nodiscard]] std::size_t first_slot(TaskId task) const { return index_.offsets[task]; }

  /// Number, in the order in which the edges were given, of the edge at a slot.
  [[nodiscard]] EdgeId edge_at(std::size_t slot) const {
    return given_.empty() ? static_cast<EdgeId>(slot) : given_[slot];
  }

  /// Successors of all tasks, by slot.
  [[nodiscard]] std::span<const TaskId> targets() const { return targets_; }
  /// First slots of all tasks, and the number of edges: for loops that can't afford a call per task.
  [[nodiscard]] std::span<const std::uint32_t> offsets() const { return index_.offsets; }

  /// How many tasks each task waits for, repetitions counted, in a byte each; empty if one waits for more
  /// than 255.
  [[nodiscard]] std::span<const std::uint8_t> few_predecessors() const { return index_.few_predecessors; }
  /// Whether every edge goes to a higher number: then the numbers are a topological order, without cycles.
  [[nodiscard]] bool upward() const { return index_.upward; }

 private:
  template <class EachEdge>
  friend void build_graph_by(std::size_t tasks, EachEdge&& each_edge, Graph& graph);
  friend void build_graph(std::size_t tasks, std::span<const Edge> edges, Graph& graph);

  detail::EdgeIndex index_;
  std::vector<TaskId> targets_;  // [slot]
  std::vector<EdgeId> given_;    // [slot], empty where edges came sorted by `from`
};

namespace detail {

inline void require_tasks(const Edge& edge, std::size_t number, std::size_t tasks) {
  require(edge.from < tasks && edge.to < tasks, "edge ", number, " goes from task ", edge.from, " to task ",
          edge.to, "; expected tasks below ", tasks);
}

inline void require_countable(std::size_t tasks, std::size_t edges) {
  require(tasks < 0xffffffffu && edges < 0xffffffffu, tasks, " tasks and ", edges,
          " edges; expected fewer than 4294967295");
}

/// Goes on with an index of sorted edges, task by task. @returns the number of edges, or of the first that comes too early
/// or, if they have to go upward, that doesn't.
template <bool upward, class Store>
std::size_t index_from(std::size_t e, std::span<const Edge> edges, EdgeIndex& index, Store&& store) {
  const std::size_t tasks = index.few_predecessors.size(), count = edges.size();
  std::uint32_t* const offsets = index.offsets.data();
  std::uint8_t* const predecessors = index.few_predecessors.data();
  TaskId task = e > 0 ? edges[e - 1].from : 0;  // those up to it have their first slot
  for (; e < count; ++e) {
    const auto [from, to] = edges[e];
    if (from < task || (upward && to <= from)) return e;
    if (from >= tasks || to >= tasks) return e;
    while (task < from) offsets[++task] = static_cast<std::uint32_t>(e);
    store(e, to);
    ++predecessors[to];
  }
  while (task < tasks) offsets[++task] = static_cast<std::uint32_t>(count);
  return e;
}

/// One pass over edges that come sorted by `from`; calls `store(number, to)` for each. @returns whether they do;
/// else `index` is undefined. @throws InvalidInput naming an edge to or from a task that doesn't exist, or too many.
template <class Store>
bool index_sorted(std::size_t tasks, std::span<const Edge> edges, EdgeIndex& index, Store&& store) {
  require_countable(tasks, edges.size());
  index.offsets.resize(tasks + 1);
  index.offsets[0] = 0;
  index.few_predecessors.assign(tasks, 0);
  std::size_t done = index_from<true>(0, edges, index, store);
  index.upward = done == edges.size();
  if (!index.upward) done = index_from<false>(done, edges, index, store);
  if (done < edges.size()) {
    require_tasks(edges[done], done, tasks);
    return false;
  }
  // A count that a byte doesn't hold is missing in their sum.
  const auto& counts = index.few_predecessors;
  if (std::accumulate(counts.begin(), counts.end(), std::size_t{0}) != edges.size())
    index.few_predecessors.clear();
  return true;
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
  detail::require_countable(tasks, 0);
  std::vector<std::uint32_t>& offsets = graph.index_.offsets;
  std::vector<std::uint8_t>& predecessors = graph.index_.few_predecessors;
  offsets.assign(tasks + 1, 0);
  predecessors.assign(tasks, 0);
  std::size_t edges = 0;
  TaskId previous = 0;
  bool sorted = true, upward = true, few = true;
  each_edge([&](TaskId from, TaskId to) {
    detail::require_tasks({from, to}, edges, tasks);
    ++offsets[from + 1];
    few = few && ++predecessors[to] != 0;
    ++edges;
    sorted = sorted && from >= previous;
    upward = upward && from < to;
    previous = from;
  });
  graph.index_.upward = upward;
  if (!few) predecessors.clear();
  detail::require_countable(tasks, edges);
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
  graph.targets_.resize(edges.size());
  graph.given_.clear();
  TaskId* const targets = graph.targets_.data();
  if (detail::index_sorted(tasks, edges, graph.index_, [=](std::size_t e, TaskId to) { targets[e] = to; }))
    return;
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
