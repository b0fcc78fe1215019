#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/dag/bubbles.hpp"
#include "slimpack/dag/critical_path.hpp"
#include "slimpack/dag/task_times.hpp"
#include "slimpack/plan/graph.hpp"

namespace slimpack {

struct TaskTime {
  double start = 0.0;
  double finish = 0.0;
};

/// When every task of a plan runs, in seconds from the step's begin.
struct Timeline {
  std::vector<std::vector<std::vector<TaskTime>>> stages;  ///< [pipeline][stage][place in the order]
  std::vector<PlanGraph::Node> critical_path;              ///< a longest path, first task to last
  double seconds = 0.0;                                    ///< its length
  std::vector<std::vector<BubbleSplit<>>> bubbles;         ///< [pipeline][stage], in its phase
  BubbleSplit<> bubble_sum;                                ///< over all stages of all pipelines
};

namespace detail {

/// By position, the mean duration of the forward or backward packs that a task's pipeline runs on its
/// stage; of a merged task, the mean over its members.
inline std::vector<double> balanced_seconds(const Plan& plan, const PlanGraph& graph) {
  std::vector<double> sum(graph.nodes.size(), 0.0), members(graph.nodes.size(), 0.0);
  for (std::size_t p = 0; p < graph.task_of.size(); ++p) {
    for (std::size_t s = 0; s < graph.task_of[p].size(); ++s) {
      const auto& order = plan.pipelines[p].order[s];
      std::array<double, 3> total{}, count{};
      for (std::size_t i = 0; i < order.size(); ++i) {
        const auto pass = static_cast<std::size_t>(order[i].pass);
        total[pass] += graph.seconds[graph.graph.position(graph.task_of[p][s][i])];
        ++count[pass];
      }
      for (std::size_t i = 0; i < order.size(); ++i) {
        const auto pass = static_cast<std::size_t>(order[i].pass);
        const TaskId position = graph.graph.position(graph.task_of[p][s][i]);
        sum[position] += total[pass] / count[pass];
        ++members[position];
      }
    }
  }
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] = members[i] > 0.0 ? sum[i] / members[i] : graph.seconds[i];
  return sum;
}

/// When each phase begins and ends; a plan of one phase lasts as long as its timeline.
inline std::vector<TaskTime> phase_times(const Plan& plan, const PlanGraph& graph,
                                         const TaskTimes<double>& times) {
  if (plan.phases() == 1) return {{0.0, times.total}};
  std::vector<TaskTime> phases(plan.phases());
  for (std::size_t p = 0; p < graph.task_of.size(); ++p) {
    double& end = phases[static_cast<std::size_t>(plan.pipelines[p].phase)].finish;
    for (const std::vector<TaskId>& stage : graph.task_of[p]) {
      if (!stage.empty()) end = std::max(end, times.finish[graph.graph.position(stage.back())]);
    }
  }
  for (std::size_t i = 1; i < phases.size(); ++i) {
    phases[i].start = phases[i - 1].finish + plan.step.switch_seconds[i - 1];
    phases[i].finish = std::max(phases[i].finish, phases[i].start);
  }
  return phases;
}

/// @param phase in which the stage runs: what is before and after it does not count as idle.
inline void add_stage(const PlanGraph& graph, std::span<const TaskId> order, const TaskTimes<double>& times,
                      const TaskTimes<double>& balanced, const TaskTime& phase, Timeline& timeline) {
  std::vector<TaskId> positions;
  positions.reserve(order.size());
  auto& stage = timeline.stages.back().emplace_back();
  stage.reserve(order.size());
  for (const TaskId task : order) {
    const TaskId position = graph.graph.position(task);
    positions.push_back(position);
    stage.push_back({times.start[position], times.finish[position]});
  }
  BubbleSplit<double> split = split_bubbles<double>(positions, times, balanced);
  if (order.empty()) {
    split.warm_up = phase.finish - phase.start;
  } else {
    split.warm_up = std::max(0.0, split.warm_up - phase.start);
    split.cool_down = std::max(0.0, split.cool_down - (times.total - phase.finish));
  }
  timeline.bubble_sum += timeline.bubbles.back().emplace_back(split);
}

}  // namespace detail

/// Simulates a plan (SlimPack, section 4.3.2): earliest times of all tasks, the critical path, and the
/// bubbles of every stage by cause. What balanced packs would leave of a bubble is its `dependency`; see
/// `split_bubbles`.
/// @param plan its lists fit each other and its ids are in range.
/// @throws InvalidInput naming the tasks of a cycle.
/// Complexity: O(tasks + slices * stages).
[[nodiscard]] inline Timeline time_plan(const Plan& plan) {
  const PlanGraph graph = plan_graph(plan);
  const auto times = calculate_times(graph.graph, graph.seconds, graph.lags);
  const auto balanced = calculate_times(graph.graph, detail::balanced_seconds(plan, graph), graph.lags);
  Timeline timeline;
  const std::vector<TaskTime> phases = detail::phase_times(plan, graph, times);
  timeline.seconds = std::max(times.total, phases.back().finish);
  for (std::size_t p = 0; p < graph.task_of.size(); ++p) {
    const TaskTime& phase =
        phases[plan.phases() == 1 ? 0 : static_cast<std::size_t>(plan.pipelines[p].phase)];
    timeline.stages.emplace_back();
    timeline.bubbles.emplace_back();
    for (const auto& order : graph.task_of[p])
      detail::add_stage(graph, order, times, balanced, phase, timeline);
  }
  for (const TaskId position : critical_path(graph.graph, times, graph.lags)) {
    timeline.critical_path.push_back(graph.nodes[graph.graph.original(position)]);
  }
  return timeline;
}

}  // namespace slimpack
