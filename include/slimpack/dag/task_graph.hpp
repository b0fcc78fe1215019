#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/dag/graph.hpp"
#include "slimpack/dag/order.hpp"

namespace slimpack {

/// An acyclic graph whose tasks are renumbered in topological order, stored by predecessors (CSR). A task's
/// new number is its position; every edge goes up, so that algorithms are one pass over consecutive memory.
/// Weights stand beside it: by position for tasks, by slot for edges; `arrange_tasks` and `arrange_edges`
/// bring them there.
class TaskGraph {
 public:
  [[nodiscard]] std::size_t size() const { return original_.size(); }
  [[nodiscard]] std::size_t edges() const { return predecessors_.size(); }

  /// Positions of the tasks that the one at `position` waits for; all are smaller.
  [[nodiscard]] std::span<const TaskId> predecessors(std::size_t position) const {
    assert(position < size());
    return {predecessors_.data() + offsets_[position], predecessors_.data() + offsets_[position + 1]};
  }
  /// Slot of the first edge into the task at `position`; its others follow, as in `predecessors`.
  [[nodiscard]] std::size_t first_slot(std::size_t position) const { return offsets_[position]; }

  /// First slots of all positions, and the number of edges: for loops that can't afford a call per task.
  [[nodiscard]] std::span<const std::uint32_t> offsets() const { return offsets_; }
  /// Predecessors of all positions, by slot.
  [[nodiscard]] std::span<const TaskId> predecessors() const { return predecessors_; }

  /// The caller's number of the task at a position.
  [[nodiscard]] TaskId original(std::size_t position) const { return original_[position]; }
  /// Position of the caller's task.
  [[nodiscard]] TaskId position(TaskId task) const { return position_[task]; }
  /// The caller's number of the edge at a slot. Needs EdgeNumbers::keep.
  [[nodiscard]] EdgeId edge_at(std::size_t slot) const { return edge_[slot]; }

  /// Brings values by task into the order of positions. @throws InvalidInput unless there is one for each
  /// task.
  /// @param[out] result reused memory.
  template <class T>
  void arrange_tasks(std::span<const T> by_task, std::vector<T>& result) const {
    require(by_task.size() == size(), by_task.size(), " values for ", size(),
            " tasks; expected one for each");
    result.resize(size());
    for (std::size_t p = 0; p < size(); ++p) result[p] = by_task[original_[p]];
  }
  template <class T>
  [[nodiscard]] std::vector<T> arrange_tasks(const std::vector<T>& by_task) const {
    std::vector<T> result;
    arrange_tasks(std::span<const T>(by_task), result);
    return result;
  }
  /// Brings values by edge into the order of slots. @throws InvalidInput unless there is one for each edge.
  template <class T>
  [[nodiscard]] std::vector<T> arrange_edges(const std::vector<T>& by_edge) const {
    require(edge_.size() == edges(), "the graph was built without edge numbers; expected EdgeNumbers::keep");
    require(by_edge.size() == edges(), by_edge.size(), " values for ", edges(),
            " edges; expected one for each");
    std::vector<T> result(edges());
    for (std::size_t slot = 0; slot < edges(); ++slot) result[slot] = by_edge[edge_[slot]];
    return result;
  }

 private:
  friend class TaskGraphBuilder;

  std::vector<std::uint32_t> offsets_{0};  // [position + 1]
  std::vector<TaskId> predecessors_;       // [slot]
  std::vector<EdgeId> edge_;               // [slot], empty unless edge numbers were asked for
  std::vector<TaskId> original_;           // [position]
  std::vector<TaskId> position_;           // [task]
};

/// Whether a task graph remembers which slot holds which of the caller's edges. It takes a third of the
/// building time; `arrange_edges` and `edge_at` need it.
enum class EdgeNumbers : std::uint8_t { forget, keep };

/// Builds task graphs; keeps its memory between calls.
class TaskGraphBuilder {
 public:
  /// Renumbers a graph's tasks in topological order (Kahn) and turns its edges around.
  /// @param name says a task's name for the message about a cycle: `std::string name(TaskId)`.
  /// @param[out] result reused memory.
  /// @throws InvalidInput naming the tasks of one cycle (the first 32 of them).
  /// Complexity: O(tasks + edges).
  template <class Name>
  void build(const Graph& graph, EdgeNumbers numbers, Name&& name, TaskGraph& result) {
    const std::size_t n = graph.size();
    places_.assign(n, {});
    for (const TaskId to : graph.targets()) ++places_[to].end;
    std::uint32_t begin = 0;
    for (std::size_t t = 0; t < n; ++t) {
      places_[t].next = begin;
      begin = places_[t].end += begin;
    }
    from_.resize(graph.edges());
    edge_.resize(numbers == EdgeNumbers::keep ? graph.edges() : 0);
    // A task's predecessors get their positions before it does: its incoming edges are complete when it is
    // reached.
    if (numbers == EdgeNumbers::keep) {
      collect(graph, result, [&](std::size_t slot, std::uint32_t at) { edge_[at] = graph.edge_at(slot); });
    } else {
      collect(graph, result, [](std::size_t, std::uint32_t) {});
    }
    if (result.original_.size() < n) throw_cycle(graph, name);
    store(n, result);
  }

  /// Builds the graph of a list of edges, in any order, repetitions allowed. Where every edge goes up
  /// already, tasks keep their numbers as positions, and building is several times faster; fastest if edges
  /// come sorted by `to`.
  /// @throws InvalidInput naming the tasks of one cycle, or an edge to or from a task that doesn't exist.
  template <class Name>
  void build(std::size_t tasks, std::span<const Edge> edges, EdgeNumbers numbers, Name&& name,
             TaskGraph& result) {
    if (std::all_of(edges.begin(), edges.end(), [](const Edge& edge) { return edge.from < edge.to; })) {
      build_upward(tasks, edges, numbers, result);
    } else {
      build_graph(tasks, edges, graph_);
      build(graph_, numbers, name, result);
    }
  }

 private:
  /// Where a task's incoming edges are collected: side by side, for a task's arrays lie far from each
  /// other.
  struct Place {
    std::uint32_t next = 0;
    std::uint32_t end = 0;
  };

  /// Kahn's algorithm; a task is ready when all its incoming edges are collected.
  template <class OnIncoming>
  void collect(const Graph& graph, TaskGraph& result, OnIncoming&& on_incoming) {
    const std::size_t n = graph.size();
    result.original_.resize(n);
    std::size_t ready = 0;
    for (std::size_t t = 0; t < n; ++t) {
      if (places_[t].next == places_[t].end) result.original_[ready++] = static_cast<TaskId>(t);
    }
    for (std::size_t p = 0; p < ready; ++p) {
      const TaskId task = result.original_[p];
      std::size_t slot = graph.first_slot(task);
      // A schedule's stages are as many streams through memory, more than a processor follows on its own.
      __builtin_prefetch(graph.targets().data() + slot + 32);
      for (const TaskId to : graph.successors(task)) {
        Place& place = places_[to];
        __builtin_prefetch(&place + 16);
        __builtin_prefetch(from_.data() + place.next + 32, 1);
        on_incoming(slot++, place.next);
        from_[place.next] = static_cast<TaskId>(p);
        if (++place.next == place.end) result.original_[ready++] = to;
      }
    }
    result.original_.resize(ready);
  }

  template <class Name>
  [[noreturn]] void throw_cycle(const Graph& graph, Name&& name) const {
    std::vector<std::uint32_t> waiting(graph.size());
    for (std::size_t t = 0; t < graph.size(); ++t) waiting[t] = places_[t].end - places_[t].next;
    detail::throw_cycle(graph, waiting, name);
  }

  /// Edges turned around and sorted by `to`, as a graph of its own.
  void build_upward(std::size_t tasks, std::span<const Edge> edges, EdgeNumbers numbers, TaskGraph& result) {
    result.offsets_.assign(tasks + 1, 0);
    result.predecessors_.resize(edges.size());
    result.edge_.resize(numbers == EdgeNumbers::keep ? edges.size() : 0);
    result.original_.resize(tasks);
    std::iota(result.original_.begin(), result.original_.end(), TaskId{0});
    result.position_ = result.original_;
    if (!store_sorted(tasks, edges, result)) sort_by_target(tasks, edges, result);
  }

  /// One pass, for edges that come sorted by `to`. @returns whether they do.
  static bool store_sorted(std::size_t tasks, std::span<const Edge> edges, TaskGraph& result) {
    TaskId previous = 0;
    for (std::size_t e = 0; e < edges.size(); ++e) {
      detail::require_tasks(edges[e], e, tasks);
      if (edges[e].to < previous) return false;
      previous = edges[e].to;
      result.predecessors_[e] = edges[e].from;
      result.offsets_[previous + 1] = static_cast<std::uint32_t>(e + 1);
    }
    for (std::size_t t = 0; t < tasks; ++t)
      result.offsets_[t + 1] = std::max(result.offsets_[t + 1], result.offsets_[t]);
    std::iota(result.edge_.begin(), result.edge_.end(), EdgeId{0});
    return true;
  }

  void sort_by_target(std::size_t tasks, std::span<const Edge> edges, TaskGraph& result) {
    std::vector<std::uint32_t>& offsets = result.offsets_;
    offsets.assign(tasks + 1, 0);
    for (std::size_t e = 0; e < edges.size(); ++e) {
      detail::require_tasks(edges[e], e, tasks);
      ++offsets[edges[e].to + 1];
    }
    for (std::size_t t = 0; t < tasks; ++t) offsets[t + 1] += offsets[t];
    cursor_.assign(offsets.begin(), offsets.end());
    for (std::size_t e = 0; e < edges.size(); ++e) {
      const std::uint32_t slot = cursor_[edges[e].to]++;
      result.predecessors_[slot] = edges[e].from;
      if (!result.edge_.empty()) result.edge_[slot] = static_cast<EdgeId>(e);
    }
  }

  void store(std::size_t tasks, TaskGraph& result) const {
    result.position_.resize(tasks);
    result.offsets_.resize(tasks + 1);
    result.offsets_[0] = 0;
    result.predecessors_.resize(from_.size());
    result.edge_.resize(edge_.size());
    std::uint32_t slot = 0;
    for (std::size_t p = 0; p < tasks; ++p) {
      const TaskId task = result.original_[p];
      result.position_[task] = static_cast<TaskId>(p);
      const std::uint32_t begin = task == 0 ? 0 : places_[task - 1].end, end = places_[task].end;
      __builtin_prefetch(places_.data() + task + 16);
      __builtin_prefetch(from_.data() + begin + 32);
      __builtin_prefetch(result.position_.data() + task + 32, 1);
      if (!edge_.empty()) std::copy(edge_.data() + begin, edge_.data() + end, result.edge_.data() + slot);
      for (std::uint32_t i = begin; i < end; ++i) result.predecessors_[slot++] = from_[i];
      result.offsets_[p + 1] = slot;
    }
  }

  Graph graph_;
  std::vector<Place> places_;          // [task]
  std::vector<std::uint32_t> cursor_;  // [task] next free slot
  std::vector<TaskId> from_;           // [incoming edge] position of the predecessor
  std::vector<EdgeId> edge_;           // [incoming edge] the caller's number
};

/// One call of TaskGraphBuilder, with edge numbers.
template <class Name>
[[nodiscard]] TaskGraph build_task_graph(std::size_t tasks, std::span<const Edge> edges, Name&& name) {
  TaskGraph result;
  TaskGraphBuilder().build(tasks, edges, EdgeNumbers::keep, name, result);
  return result;
}

/// The same; a cycle is named by numbers.
[[nodiscard]] inline TaskGraph build_task_graph(std::size_t tasks, std::span<const Edge> edges) {
  return build_task_graph(tasks, edges, [](TaskId task) { return std::to_string(task); });
}

}  // namespace slimpack
