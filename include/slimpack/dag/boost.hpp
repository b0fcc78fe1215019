#pragma once

#include <boost/graph/graph_traits.hpp>
#include <boost/graph/properties.hpp>
#include <boost/property_map/property_map.hpp>
#include <cstddef>
#include <iterator>
#include <utility>

#include "slimpack/dag/graph.hpp"

/// Adapts `Graph` to Boost.Graph's VertexListGraph, IncidenceGraph and EdgeListGraph, so that Boost's
/// algorithms run on it: breadth_first_search, topological_sort, dag_shortest_paths, … Vertices are tasks;
/// `boost::vertex_index` and `boost::edge_index` (an edge's slot) index external property maps. Needs the
/// target slimpack::boost.

namespace slimpack {

/// An edge as Boost.Graph handles it.
struct BoostEdge {
  TaskId from = 0;
  std::size_t slot = 0;

  friend bool operator==(const BoostEdge&, const BoostEdge&) = default;
};

/// Walks over tasks.
class BoostVertexIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = TaskId;
  using difference_type = std::ptrdiff_t;
  using pointer = const TaskId*;
  using reference = TaskId;

  BoostVertexIterator() = default;
  explicit BoostVertexIterator(TaskId task) : task_(task) {}
  TaskId operator*() const { return task_; }
  BoostVertexIterator& operator++() {
    ++task_;
    return *this;
  }
  BoostVertexIterator operator++(int) { return BoostVertexIterator(task_++); }
  friend bool operator==(const BoostVertexIterator&, const BoostVertexIterator&) = default;

 private:
  TaskId task_ = 0;
};

/// Walks over the edges of one task after another, starting at a slot.
class BoostEdgeIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = BoostEdge;
  using difference_type = std::ptrdiff_t;
  using pointer = const BoostEdge*;
  using reference = BoostEdge;

  BoostEdgeIterator() = default;
  /// @param from task of the slot, or an earlier one.
  BoostEdgeIterator(const Graph& graph, TaskId from, std::size_t slot) : graph_(&graph), edge_{from, slot} {
    settle();
  }
  BoostEdge operator*() const { return edge_; }
  BoostEdgeIterator& operator++() {
    ++edge_.slot;
    settle();
    return *this;
  }
  BoostEdgeIterator operator++(int) {
    const BoostEdgeIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const BoostEdgeIterator& a, const BoostEdgeIterator& b) {
    return a.edge_.slot == b.edge_.slot;
  }

 private:
  /// Moves on to the task that the slot belongs to, past tasks without edges.
  void settle() {
    if (edge_.slot >= graph_->edges()) return;
    while (edge_.slot >= graph_->first_slot(edge_.from) + graph_->successors(edge_.from).size()) ++edge_.from;
  }

  const Graph* graph_ = nullptr;
  BoostEdge edge_;
};

/// Slots of edges, as a property map.
struct BoostEdgeIndex {
  using key_type = BoostEdge;
  using value_type = std::size_t;
  using reference = std::size_t;
  using category = boost::readable_property_map_tag;

  friend std::size_t get(const BoostEdgeIndex&, const BoostEdge& edge) { return edge.slot; }
};

[[nodiscard]] inline std::size_t num_vertices(const Graph& graph) { return graph.size(); }
[[nodiscard]] inline std::size_t num_edges(const Graph& graph) { return graph.edges(); }
[[nodiscard]] inline TaskId source(const BoostEdge& edge, const Graph&) { return edge.from; }
[[nodiscard]] inline TaskId target(const BoostEdge& edge, const Graph& graph) {
  return graph.targets()[edge.slot];
}
[[nodiscard]] inline std::size_t out_degree(TaskId task, const Graph& graph) {
  return graph.successors(task).size();
}

[[nodiscard]] inline std::pair<BoostVertexIterator, BoostVertexIterator> vertices(const Graph& graph) {
  return {BoostVertexIterator(0), BoostVertexIterator(static_cast<TaskId>(graph.size()))};
}
[[nodiscard]] inline std::pair<BoostEdgeIterator, BoostEdgeIterator> out_edges(TaskId task,
                                                                               const Graph& graph) {
  const std::size_t first = graph.first_slot(task);
  return {BoostEdgeIterator(graph, task, first),
          BoostEdgeIterator(graph, task, first + graph.successors(task).size())};
}
[[nodiscard]] inline std::pair<BoostEdgeIterator, BoostEdgeIterator> edges(const Graph& graph) {
  return {BoostEdgeIterator(graph, 0, 0), BoostEdgeIterator(graph, 0, graph.edges())};
}

[[nodiscard]] inline boost::typed_identity_property_map<TaskId> get(boost::vertex_index_t, const Graph&) {
  return {};
}
[[nodiscard]] inline BoostEdgeIndex get(boost::edge_index_t, const Graph&) { return {}; }
[[nodiscard]] inline TaskId get(boost::vertex_index_t, const Graph&, TaskId task) { return task; }
[[nodiscard]] inline std::size_t get(boost::edge_index_t, const Graph&, const BoostEdge& edge) {
  return edge.slot;
}

}  // namespace slimpack

namespace boost {

template <>
struct graph_traits<slimpack::Graph> {
  using vertex_descriptor = slimpack::TaskId;
  using edge_descriptor = slimpack::BoostEdge;
  using vertex_iterator = slimpack::BoostVertexIterator;
  using out_edge_iterator = slimpack::BoostEdgeIterator;
  using edge_iterator = slimpack::BoostEdgeIterator;
  using directed_category = directed_tag;
  using edge_parallel_category = allow_parallel_edge_tag;
  struct traversal_category : vertex_list_graph_tag, incidence_graph_tag, edge_list_graph_tag {};
  using vertices_size_type = std::size_t;
  using edges_size_type = std::size_t;
  using degree_size_type = std::size_t;

  static vertex_descriptor null_vertex() { return ~vertex_descriptor{0}; }
};

template <>
struct property_map<slimpack::Graph, vertex_index_t> {
  using type = typed_identity_property_map<slimpack::TaskId>;
  using const_type = type;
};

template <>
struct property_map<slimpack::Graph, edge_index_t> {
  using type = slimpack::BoostEdgeIndex;
  using const_type = type;
};

}  // namespace boost
