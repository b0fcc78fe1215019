#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/dag/timeline.hpp"
#include "slimpack/plan/graph.hpp"

namespace slimpack {

struct TaskTime {
  double start = 0.0;
  double finish = 0.0;
};

/// When every task of a plan runs.
struct Timeline {
  std::vector<std::vector<std::vector<TaskTime>>> stages;  ///< [pipeline][stage][place in the order]
  std::vector<PlanGraph::Node> critical_path;              ///< a longest path, first task to last
  double seconds = 0.0;                                    ///< its length
};

/// Simulates a plan: the longest path through its task graph (SlimPack, section 4.3.2).
/// @throws InvalidInput naming the tasks of a cycle. O(tasks + slices log slices).
[[nodiscard]] inline Timeline time_plan(const Plan& plan) {
  const PlanGraph graph = plan_graph(plan);
  TaskTimes<double> times;
  calculate_times<double>(graph.graph, graph.seconds, times);
  Timeline timeline;
  timeline.seconds = times.total;
  for (const auto& pipeline : graph.task_of) {
    auto& stages = timeline.stages.emplace_back();
    for (const auto& order : pipeline) {
      auto& stage = stages.emplace_back();
      stage.reserve(order.size());
      for (const TaskId task : order) {
        const TaskId p = graph.graph.position(task);
        stage.push_back({times.start[p], times.finish[p]});
      }
    }
  }
  for (const TaskId p : critical_path(graph.graph, times)) {
    timeline.critical_path.push_back(graph.nodes[graph.graph.original(p)]);
  }
  return timeline;
}

}  // namespace slimpack
