#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/dag/graph.hpp"

namespace slimpack {

/// Tasks of resources that each run theirs one after another, as a pipeline's stages do. The tasks of one
/// resource form a *chain*: they have consecutive numbers, and each waits for the one before. Only their
/// other dependencies are stored as edges. Holds no weights.
class ChainGraph {
 public:
  [[nodiscard]] std::size_t size() const { return begins_.back(); }
  [[nodiscard]] std::size_t chains() const { return begins_.size() - 1; }

  /// First tasks of all chains, then the number of tasks.
  [[nodiscard]] std::span<const TaskId> begins() const { return begins_; }
  /// The edges sorted by `from`, those of one task in the order in which they were given. An edge's place
  /// here is its slot.
  [[nodiscard]] std::span<const Edge> edges() const { return edges_; }
  /// Slots of the first edges from all chains, then the number of edges.
  [[nodiscard]] std::span<const std::uint32_t> first_slots() const { return first_slots_; }
  /// How many edges lead to each task, repetitions counted.
  [[nodiscard]] std::span<const std::uint32_t> predecessors() const { return predecessors_; }

  /// Number, in the order in which the edges were given, of the edge at a slot.
  [[nodiscard]] EdgeId edge_at(std::size_t slot) const {
    return given_.empty() ? static_cast<EdgeId>(slot) : given_[slot];
  }

 private:
  friend void build_chain_graph(std::span<const std::size_t> lengths, std::span<const Edge> edges,
                                ChainGraph& graph);

  void place_chains(std::span<const std::size_t> lengths);
  [[nodiscard]] bool store_sorted(std::span<const Edge> edges);
  void sort_edges(std::span<const Edge> edges);

  std::vector<TaskId> begins_{0};              // [chain + 1]
  std::vector<Edge> edges_;                    // [slot]
  std::vector<std::uint32_t> first_slots_{0};  // [chain + 1]
  std::vector<std::uint32_t> predecessors_;    // [task]
  std::vector<EdgeId> given_;                  // [slot], empty if edges came sorted by `from`
};

inline void ChainGraph::place_chains(std::span<const std::size_t> lengths) {
  begins_.assign(1, 0);
  std::size_t tasks = 0;
  for (const std::size_t length : lengths) {
    constexpr std::size_t most = 0xfffffffeu;
    require(length <= most - tasks, length, " tasks in chain ", begins_.size() - 1, ", after ", tasks,
            " in those before; expected fewer than 4294967295 in all");
    tasks += length;
    begins_.push_back(static_cast<TaskId>(tasks));
  }
}

/// @returns whether the edges come sorted by `from`; otherwise what is stored is undefined.
inline bool ChainGraph::store_sorted(std::span<const Edge> edges) {
  const std::size_t tasks = size(), count = edges.size();
  predecessors_.assign(tasks, 0);
  edges_.resize(count);
  Edge* const stored = edges_.data();
  std::uint32_t* const predecessors = predecessors_.data();
  TaskId previous = 0;
  for (std::size_t e = 0; e < count; ++e) {
    const auto [from, to] = edges[e];
    if (to >= tasks || from < previous) return false;
    previous = from;
    ++predecessors[to];
    stored[e] = {from, to};
  }
  return previous < tasks || count == 0;
}

/// Counting sort.
inline void ChainGraph::sort_edges(std::span<const Edge> edges) {
  predecessors_.assign(size(), 0);
  std::vector<std::uint32_t> slots(size() + 1, 0);
  for (std::size_t e = 0; e < edges.size(); ++e) {
    detail::require_tasks(edges[e], e, size());
    ++slots[edges[e].from + 1];
    ++predecessors_[edges[e].to];
  }
  for (std::size_t t = 0; t < size(); ++t) slots[t + 1] += slots[t];
  given_.resize(edges.size());
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const std::uint32_t slot = slots[edges[e].from]++;
    edges_[slot] = edges[e];
    given_[slot] = static_cast<EdgeId>(e);
  }
}

/// Builds a graph of chains.
/// @param lengths number of tasks of each chain: the first chain's are numbered from 0, the next chain's
/// follow, and so on.
/// @param edges in any order, fastest sorted by `from`; repetitions and edges along a chain are allowed.
/// @param[out] graph reused memory; undefined after an exception.
/// @throws InvalidInput naming an edge to or from a task that doesn't exist, or too many tasks or edges.
/// Complexity: O(tasks + edges + chains log edges).
inline void build_chain_graph(std::span<const std::size_t> lengths, std::span<const Edge> edges,
                              ChainGraph& graph) {
  require(edges.size() < 0xffffffffu, edges.size(), " edges; expected fewer than 4294967295");
  graph.place_chains(lengths);
  graph.given_.clear();
  if (!graph.store_sorted(edges)) graph.sort_edges(edges);
  const auto before = [](const Edge& edge, TaskId task) { return edge.from < task; };
  graph.first_slots_.clear();
  for (const TaskId begin : graph.begins_) {
    const auto first = std::lower_bound(graph.edges_.begin(), graph.edges_.end(), begin, before);
    graph.first_slots_.push_back(static_cast<std::uint32_t>(first - graph.edges_.begin()));
  }
}

/// The same, into a new graph.
[[nodiscard]] inline ChainGraph build_chain_graph(std::span<const std::size_t> lengths,
                                                  std::span<const Edge> edges) {
  ChainGraph graph;
  build_chain_graph(lengths, edges, graph);
  return graph;
}

}  // namespace slimpack
