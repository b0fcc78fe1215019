#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/dag/chain_graph.hpp"
#include "slimpack/dag/graph.hpp"
#include "slimpack/dag/order.hpp"

namespace slimpack {

/// Algorithm 1 (SlimPack, section 4.3) on chains: each in turn runs as far as it can. This needs no queue of
/// tasks and reads memory from front to back, in as many streams as there are chains: the way to time a graph
/// once. Keeps its memory between calls.
template <class Time = double>
class ChainRelaxation {
 public:
  /// @param weights duration of each task, not negative. @param lags delay of each edge, in the order in
  /// which the edges were given; none if empty. There is none between a chain's tasks.
  /// @param name says a task's name for the message about a cycle: `std::string name(TaskId)`.
  /// @returns the latest finish; 0 without tasks.
  /// @throws InvalidInput naming the tasks of one cycle, or if weights or lags don't fit the graph.
  /// Complexity: O(tasks + edges + chains); if most chains wait, O(log chains) more for each task with edges
  /// into it.
  template <class Name>
  Time operator()(const ChainGraph& graph, std::span<const Time> weights, std::span<const Time> lags,
                  Name&& name) {
    const std::size_t n = graph.size(), edges = graph.edges().size();
    require(weights.size() == n, weights.size(), " weights for ", n, " tasks; expected one for each");
    require(lags.empty() || lags.size() == edges, lags.size(), " lags for ", edges,
            " edges; expected one for each, or none");
    start_.assign(n, Time{});
    waiting_.assign(graph.predecessors().begin(), graph.predecessors().end());
    cursors_.clear();
    for (std::size_t c = 0; c < graph.chains(); ++c)
      cursors_.push_back({graph.begins()[c], graph.begins()[c + 1], graph.first_slots()[c],
                          graph.first_slots()[c + 1], Time{}});
    const bool complete = lags.empty() ? run(graph, weights, [](Time finish, std::size_t) { return finish; })
                                       : run(graph, weights, [&](Time finish, std::size_t slot) {
                                           return static_cast<Time>(finish + lags[graph.edge_at(slot)]);
                                         });
    if (!complete) refuse_cycle(graph, name);
    Time total{};
    for (const Cursor& chain : cursors_) total = std::max(total, chain.free);
    return total;
  }

  /// The same, without lags; a cycle is named by numbers.
  Time operator()(const ChainGraph& graph, std::span<const Time> weights) {
    return (*this)(graph, weights, {}, [](TaskId task) { return std::to_string(task); });
  }

  /// Start of a task in the graph of the latest call.
  [[nodiscard]] Time start(TaskId task) const { return start_[task]; }

 private:
  /// How far a chain has come.
  struct Cursor {
    TaskId next = 0;
    TaskId end = 0;
    std::uint32_t slot = 0;   ///< of the first edge from `next` or later
    std::uint32_t slots = 0;  ///< end of the chain's
    Time free{};              ///< when the task before `next` is done
  };

  /// @returns whether all tasks are done; otherwise some wait for each other.
  template <class Arrival>
  bool run(const ChainGraph& graph, std::span<const Time> weights, const Arrival& arrival) {
    std::size_t left = graph.size(), done = 0;
    const auto visit = [&](std::size_t c) {
      done += advance(graph, weights, arrival, cursors_[c], [](TaskId) {});
    };
    // A pipeline's stages wait for their neighbours, so every second one can go on without the others. If
    // sweeps find too few chains ready, chains are followed one by one.
    for (std::size_t visits = 0; left > 0 && visits <= 4 * graph.size(); visits += cursors_.size()) {
      done = 0;
      for (std::size_t c = 0; c < cursors_.size(); c += 2) visit(c);
      for (std::size_t c = 1; c < cursors_.size(); c += 2) visit(c);
      if (done == 0) return false;
      left -= done;
    }
    return left == 0 || follow(graph, weights, arrival) == left;
  }

  /// Runs a chain's tasks up to the first that waits for another chain. `on_ready` gets the tasks whose last
  /// edge is met. @returns how many.
  template <class Arrival, class OnReady>
  std::size_t advance(const ChainGraph& graph, std::span<const Time> weights, const Arrival& arrival,
                      Cursor& chain, OnReady&& on_ready) {
    const Edge* const edges = graph.edges().data();
    const Time* const weight = weights.data();
    Time* const start = start_.data();
    std::uint32_t* const waiting = waiting_.data();
    const TaskId first = chain.next, end = chain.end;
    const std::size_t slots = chain.slots;
    std::size_t task = first, slot = chain.slot;
    Time free = chain.free;
    for (; task < end && waiting[task] == 0; ++task) {
      // A processor doesn't prefetch that many streams by itself. Eight tasks share a cache line.
      if (task % 8 == 0 && task + 16 < end) {
        if (slot + 16 < slots) __builtin_prefetch(edges + slot + 16);
        __builtin_prefetch(weight + task + 16);
        __builtin_prefetch(start + task + 16, 1);
      }
      free = std::max(start[task], free);
      start[task] = free;
      free += weight[task];
      for (; slot < slots && edges[slot].from == task; ++slot) {
        const std::size_t to = edges[slot].to;
        start[to] = std::max(start[to], arrival(free, slot));
        if (--waiting[to] == 0) on_ready(static_cast<TaskId>(to));
      }
    }
    chain.next = static_cast<TaskId>(task);
    chain.slot = static_cast<std::uint32_t>(slot);
    chain.free = free;
    return task - first;
  }

  /// Continues each chain as soon as its next task is ready. @returns how many tasks were done.
  template <class Arrival>
  std::size_t follow(const ChainGraph& graph, std::span<const Time> weights, const Arrival& arrival) {
    const std::span<const TaskId> begins = graph.begins();
    std::size_t done = 0;
    ready_.clear();
    for (std::size_t c = cursors_.size(); c-- > 0;) ready_.push_back(c);
    while (!ready_.empty()) {
      Cursor& chain = cursors_[ready_.back()];
      ready_.pop_back();
      done += advance(graph, weights, arrival, chain, [&](TaskId task) {
        const auto after = std::upper_bound(begins.begin(), begins.end(), task);
        const auto c = static_cast<std::size_t>(after - begins.begin()) - 1;
        if (cursors_[c].next == task) ready_.push_back(c);
      });
    }
    return done;
  }

  /// Finds the cycle on the graph with all its edges, and throws.
  template <class Name>
  static void refuse_cycle(const ChainGraph& chains, Name&& name) {
    std::vector<Edge> edges(chains.edges().begin(), chains.edges().end());
    for (std::size_t c = 0; c < chains.chains(); ++c) {
      for (TaskId task = chains.begins()[c]; task + 1 < chains.begins()[c + 1]; ++task)
        edges.push_back({task, task + 1});
    }
    (void)topological_order(build_graph(chains.size(), edges), name);
  }

  std::vector<Time> start_;             // [task]
  std::vector<std::uint32_t> waiting_;  // [task] edges from tasks that aren't done
  std::vector<Cursor> cursors_;         // [chain]
  std::vector<std::size_t> ready_;      // chains that may go on
};

}  // namespace slimpack
