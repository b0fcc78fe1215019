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

/// A directed graph of tasks, stored by successors (CSR). It holds no weights: callers keep them in arrays,
/// by task or by edge, so that durations change without rebuilding the graph.
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
  [[nodiscard]] EdgeId edge_at(std::size_t slot) const { return given_[slot]; }

  /// Successors of all tasks, by slot.
  [[nodiscard]] std::span<const TaskId> targets() const { return targets_; }

 private:
  friend Graph build_graph(std::size_t tasks, std::span<const Edge> edges);

  std::vector<std::uint32_t> offsets_{0};  // [task + 1]
  std::vector<TaskId> targets_;            // [slot]
  std::vector<EdgeId> given_;              // [slot]
};

namespace detail {

inline void require_tasks(const Edge& edge, std::size_t number, std::size_t tasks) {
  require(edge.from < tasks && edge.to < tasks, "edge ", number, " goes from task ", edge.from, " to task ",
          edge.to, "; expected tasks below ", tasks);
}

}  // namespace detail

/// Builds a graph from a list of edges, in any order, repetitions allowed.
/// @throws InvalidInput naming an edge to or from a task that doesn't exist, or too many tasks or edges.
/// Complexity: O(tasks + edges), a counting sort by source.
[[nodiscard]] inline Graph build_graph(std::size_t tasks, std::span<const Edge> edges) {
  require(tasks < 0xffffffffu && edges.size() < 0xffffffffu, tasks, " tasks and ", edges.size(),
          " edges; expected fewer than 4294967295");
  Graph graph;
  std::vector<std::uint32_t>& offsets = graph.offsets_;
  offsets.assign(tasks + 1, 0);
  for (std::size_t e = 0; e < edges.size(); ++e) {
    detail::require_tasks(edges[e], e, tasks);
    ++offsets[edges[e].from + 1];
  }
  for (std::size_t t = 0; t < tasks; ++t) offsets[t + 1] += offsets[t];
  graph.targets_.resize(edges.size());
  graph.given_.resize(edges.size());
  // Storing moves every offset to the next task's; the shift afterwards undoes that.
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const std::uint32_t slot = offsets[edges[e].from]++;
    graph.targets_[slot] = edges[e].to;
    graph.given_[slot] = static_cast<EdgeId>(e);
  }
  std::copy_backward(offsets.begin(), offsets.end() - 1, offsets.end());
  offsets.front() = 0;
  return graph;
}

}  // namespace slimpack
