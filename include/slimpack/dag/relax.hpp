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
    start_.assign(n, Time{});
    if (graph.upward()) return relax_upward(graph, weights);
    const auto few = graph.few_predecessors();
    if (few.size() == n) {
      few_.assign(few.begin(), few.end());
      return relax_when_ready(graph, weights, few_, name);
    }
    detail::count_predecessors(graph, many_);
    return relax_when_ready(graph, weights, many_, name);
  }

  /// The same; a cycle is named by numbers.
  Time operator()(const Graph& graph, std::span<const Time> weights) {
    return (*this)(graph, weights, [](TaskId task) { return std::to_string(task); });
  }

  /// Start of a task in the graph of the latest call.
  [[nodiscard]] Time start(TaskId task) const { return start_[task]; }

 private:
  /// Tasks in the order of their numbers.
  Time relax_upward(const Graph& graph, std::span<const Time> weights) {
    Time total{};
    for (TaskId task = 0; task < weights.size(); ++task) {
      const Time finish = start_[task] + weights[task];
      total = std::max(total, finish);
      for (const TaskId to : graph.successors(task)) start_[to] = std::max(start_[to], finish);
    }
    return total;
  }

  /// Kahn's algorithm. Whether a successor is ready is as good as random to a branch predictor: it is
  /// always written behind the queue, which grows by 0 or 1.
  /// @param[in,out] counts predecessors that aren't done, by task.
  template <class Count, class Name>
  Time relax_when_ready(const Graph& graph, std::span<const Time> weights, std::vector<Count>& counts,
                        Name&& name) {
    queue_.resize(weights.size() + 1);
    std::size_t ready = put_sources(counts);
    TaskId* const queue = queue_.data();  // bytes may alias anything: pointers stay in registers
    Time* const start = start_.data();
    Count* const waiting = counts.data();
    const std::uint32_t* const offsets = graph.offsets().data();
    const TaskId* const targets = graph.targets().data();
    Time total{};
    for (std::size_t done = 0; done < ready; ++done) {
      const std::size_t task = queue[done];
      const TaskId *to = targets + offsets[task], *const last = targets + offsets[task + 1];
      // A schedule's stages are as many streams through memory, more than a processor follows on its own. Eight tasks
      // share a cache line.
      if (task % 8 == 0) {
        __builtin_prefetch(offsets + task + 32);
        __builtin_prefetch(to + 32);
        __builtin_prefetch(weights.data() + task + 16);
        __builtin_prefetch(start + task + 16, 1);
      }
      const Time finish = start[task] + weights[task];
      total = std::max(finish, total);
      for (; to != last; ++to) {
        const std::size_t next = *to;
        start[next] = std::max(start[next], finish);
        queue[ready] = static_cast<TaskId>(next);
        ready += --waiting[next] == 0 ? 1 : 0;
      }
    }
    if (ready < weights.size()) detail::throw_cycle(graph, counts, name);
    return total;
  }

  /// Puts the tasks that wait for none into the queue. @returns how many.
  template <class Count>
  std::size_t put_sources(const std::vector<Count>& counts) {
    std::size_t found = 0;
    const auto next = [&](auto from) { return std::find(from, counts.end(), Count{0}); };
    for (auto source = next(counts.begin()); source != counts.end(); source = next(source + 1))
      queue_[found++] = static_cast<TaskId>(source - counts.begin());
    return found;
  }

  std::vector<Time> start_;          // [task]
  std::vector<std::uint8_t> few_;    // [task] predecessors that aren't done, where bytes can count them
  std::vector<std::uint32_t> many_;  // [task] the same for other graphs
  std::vector<TaskId> queue_;        // tasks that became ready, and one place behind the last
};

}  // namespace slimpack
