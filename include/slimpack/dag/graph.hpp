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

class Graph;

namespace detail {
bool store_sorted(std::size_t tasks, std::span<const Edge> edges, Graph& graph);
template <bool upward>
std::size_t store_from(std::size_t first, std::span<const Edge> edges, Graph& graph);
}  // namespace detail

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
  /// First slots of all tasks, and the number of edges: for loops that can't afford a call per task.
  [[nodiscard]] std::span<const std::uint32_t> offsets() const { return offsets_; }

  /// How many tasks each task waits for, repetitions counted, in a byte each; empty if one waits for more
  /// than 255.
  [[nodiscard]] std::span<const std::uint8_t> few_predecessors() const { return few_predecessors_; }
  /// Whether every edge goes to a higher number: then the numbers are a topological order, without cycles.
  [[nodiscard]] bool upward() const { return upward_; }

 private:
  template <class EachEdge>
  friend void build_graph_by(std::size_t tasks, EachEdge&& each_edge, Graph& graph);
  friend bool detail::store_sorted(std::size_t tasks, std::span<const Edge> edges, Graph& graph);
  template <bool upward>
  friend std::size_t detail::store_from(std::size_t first, std::span<const Edge> edges, Graph& graph);

  std::vector<std::uint32_t> offsets_{0};       // [task + 1]
  std::vector<TaskId> targets_;                 // [slot]
  std::vector<EdgeId> given_;                   // [slot], empty where edges came sorted by `from`
  std::vector<std::uint8_t> few_predecessors_;  // [task], empty if one has more than 255
  bool upward_ = true;
};

namespace detail {

inline void require_tasks(const Edge& edge, std::size_t number, std::size_t tasks) {
  require(edge.from < tasks && edge.to < tasks, "edge ", number, " goes from task ", edge.from, " to task ",
          edge.to, "; expected tasks below ", tasks);
}

/// Goes on to store sorted edges. @returns how many are stored: all, or those before the first that comes too early, goes
/// to or from no task or, if they have to go upward, doesn't.
template <bool upward>
std::size_t store_from(std::size_t first, std::span<const Edge> edges, Graph& graph) {
  const std::size_t tasks = graph.few_predecessors_.size(), count = edges.size();
  std::uint32_t* const offsets = graph.offsets_.data();
  TaskId* const targets = graph.targets_.data();
  std::uint8_t* const predecessors = graph.few_predecessors_.data();
  TaskId task = first > 0 ? edges[first - 1].from : 0;  // those up to it have their first slot
  for (std::size_t e = first; e < count; ++e) {
    const auto [from, to] = edges[e];
    if (from != task) {
      if (from < task || from >= tasks) return e;
      const auto slot = static_cast<std::uint32_t>(e);
      if (from - task > 1) std::fill(offsets + task + 1, offsets + from, slot);
      offsets[from] = slot;
      task = from;
    }
    if (to >= tasks || (upward && to <= from)) return e;
    targets[e] = to;
    ++predecessors[to];
  }
  while (task < tasks) offsets[++task] = static_cast<std::uint32_t>(count);
  return count;
}

/// One pass over edges that come sorted by `from`. @returns whether they do; else `graph` is undefined.
inline bool store_sorted(std::size_t tasks, std::span<const Edge> edges, Graph& graph) {
  graph.offsets_.resize(tasks + 1);
  graph.offsets_[0] = 0;
  graph.targets_.resize(edges.size());
  graph.given_.clear();
  graph.few_predecessors_.assign(tasks, 0);
  std::size_t done = store_from<true>(0, edges, graph);
  graph.upward_ = done == edges.size();
  if (!graph.upward_) done = store_from<false>(done, edges, graph);
  if (done < edges.size()) {
    require_tasks(edges[done], done, tasks);
    return false;
  }
  // A count that a byte doesn't hold is missing in their sum.
  auto& counts = graph.few_predecessors_;
  if (std::accumulate(counts.begin(), counts.end(), std::size_t{0}) != edges.size()) counts.clear();
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
  require(tasks < 0xffffffffu, tasks, " tasks; expected fewer than 4294967295");
  std::vector<std::uint32_t>& offsets = graph.offsets_;
  offsets.assign(tasks + 1, 0);
  graph.few_predecessors_.assign(tasks, 0);
  std::size_t edges = 0;
  TaskId previous = 0;
  bool sorted = true, upward = true, few = true;
  each_edge([&](TaskId from, TaskId to) {
    detail::require_tasks({from, to}, edges, tasks);
    ++offsets[from + 1];
    few = few && ++graph.few_predecessors_[to] != 0;
    ++edges;
    sorted = sorted && from >= previous;
    upward = upward && from < to;
    previous = from;
  });
  graph.upward_ = upward;
  if (!few) graph.few_predecessors_.clear();
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
  if (detail::store_sorted(tasks, edges, graph)) return;
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
