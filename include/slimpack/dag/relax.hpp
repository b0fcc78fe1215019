#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/dag/graph.hpp"
#include "slimpack/dag/order.hpp"

namespace slimpack {

/// Algorithm 1 as SlimPack prints it: sorts topologically and relaxes edges in the same pass, on the graph
/// as it was built. The way for a graph that is timed once; to time it for many weights, `renumber` it into
/// a TaskGraph first and a call gets several times faster. Keeps its memory between calls.
template <class Time = double>
class Relaxation {
 public:
  /// @param weights duration of each task, by task.
  /// @param name says a task's name for the message about a cycle: `std::string name(TaskId)`.
  /// @returns the latest finish; 0 without tasks.
  /// @throws InvalidInput naming the tasks of one cycle, or if there are not as many weights as tasks.
  /// Complexity: O(tasks + edges).
  template <class Name>
  Time operator()(const Graph& graph, std::span<const Time> weights, Name&& name) {
    const std::size_t n = graph.size();
    require(weights.size() == n, weights.size(), " weights for ", n, " tasks; expected one for each");
    tasks_.assign(n, {});
    for (const TaskId to : graph.targets()) ++tasks_[to].waiting;
    order_.resize(n);
    std::size_t ready = 0;
    for (std::size_t t = 0; t < n; ++t) {
      if (tasks_[t].waiting == 0) order_[ready++] = static_cast<TaskId>(t);
    }
    Time total{};
    for (std::size_t next = 0; next < ready; ++next) {
      const TaskId task = order_[next];
      // A schedule's stages are as many streams through memory, more than a processor follows on its own.
      __builtin_prefetch(weights.data() + task + 16);
      __builtin_prefetch(graph.targets().data() + graph.first_slot(task) + 32);
      const Time finish = tasks_[task].start + weights[task];
      total = std::max(total, finish);
      for (const TaskId to : graph.successors(task)) {
        State& after = tasks_[to];
        __builtin_prefetch(&after + 8);
        after.start = std::max(after.start, finish);
        if (--after.waiting == 0) order_[ready++] = to;
      }
    }
    if (ready < n) throw_cycle(graph, name);
    return total;
  }

  /// The same; a cycle is named by numbers.
  Time operator()(const Graph& graph, std::span<const Time> weights) {
    return (*this)(graph, weights, [](TaskId task) { return std::to_string(task); });
  }

  /// Start of a task in the graph of the latest call.
  [[nodiscard]] Time start(TaskId task) const { return tasks_[task].start; }
  /// Tasks of the latest call's graph in the topological order that was used.
  [[nodiscard]] std::span<const TaskId> order() const { return order_; }

 private:
  struct State {  // side by side: a task's successors lie anywhere
    Time start{};
    std::uint32_t waiting = 0;
  };

  template <class Name>
  [[noreturn]] void throw_cycle(const Graph& graph, Name&& name) const {
    std::vector<std::uint32_t> waiting;
    for (const State& task : tasks_) waiting.push_back(task.waiting);
    detail::throw_cycle(graph, waiting, name);
  }

  std::vector<State> tasks_;  // [task]
  std::vector<TaskId> order_;
};

}  // namespace slimpack
