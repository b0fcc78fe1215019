#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "slimpack/dag/graph.hpp"

namespace slimpack::testing {

/// A random acyclic graph, numbered independently of its order; edges can repeat.
struct RandomGraph {
  explicit RandomGraph(std::uint64_t seed) : random(seed) {
    tasks = random() % 40;
    std::vector<TaskId> shuffled(tasks);
    std::iota(shuffled.begin(), shuffled.end(), TaskId{0});
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    const std::size_t count = tasks < 2 ? 0 : random() % (3 * tasks);
    for (std::size_t e = 0; e < count; ++e) {
      std::size_t a = random() % tasks, b = random() % tasks;
      if (a == b) continue;
      if (a > b) std::swap(a, b);
      edges.push_back({shuffled[a], shuffled[b]});
    }
    for (std::size_t t = 0; t < tasks; ++t) weights.push_back(static_cast<std::int64_t>(random() % 20));
    for (std::size_t e = 0; e < edges.size(); ++e) lags.push_back(static_cast<std::int64_t>(random() % 5));
  }

  std::mt19937_64 random;
  std::size_t tasks = 0;
  std::vector<Edge> edges;
  std::vector<std::int64_t> weights;  ///< [task]
  std::vector<std::int64_t> lags;     ///< [edge]
};

/// Finish times by repeating Eq. 1 and 2 over all edges until nothing changes. [task]
inline std::vector<std::int64_t> naive_finish(const RandomGraph& graph, bool with_lags) {
  std::vector<std::int64_t> start(graph.tasks, 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t e = 0; e < graph.edges.size(); ++e) {
      const auto [from, to] = graph.edges[e];
      const std::int64_t ready = start[from] + graph.weights[from] + (with_lags ? graph.lags[e] : 0);
      if (ready > start[to]) {
        start[to] = ready;
        changed = true;
      }
    }
  }
  for (std::size_t t = 0; t < graph.tasks; ++t) start[t] += graph.weights[t];
  return start;
}

}  // namespace slimpack::testing
