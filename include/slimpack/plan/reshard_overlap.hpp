#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/synchronise.hpp"
#include "slimpack/dag/task_times.hpp"
#include "slimpack/plan/graph.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/strategy/reshard.hpp"
#include "slimpack/strategy/reshard_seconds.hpp"
#include "slimpack/strategy/reshard_shards.hpp"
#include "slimpack/strategy/reshard_steps.hpp"

namespace slimpack {

/// What a step spends its time on (Hydraulis, Table 1).
struct StepBreakdown {
  double propagation = 0.0;  ///< P: forward and backward tasks, as if parameters were there
  double optimiser = 0.0;    ///< O: the update, on the device that updates most
  double interaction = 0.0;  ///< O-P: what pull and push add to that

  [[nodiscard]] double seconds() const { return propagation + optimiser + interaction; }
};

/// A step whose optimiser's states stay where they are.
struct DisaggregatedStep {
  StepBreakdown apart;       ///< all of the pull before, all of the push after the tasks
  StepBreakdown overlapped;  ///< with scheduled subgraphs (Hydraulis, section 5.3)
};

namespace detail {

/// The tasks of a plan, what each device pulls and pushes of each unit, and each device's update, as one graph.
class ReshardOverlap {
 public:
  ReshardOverlap(const PlanGraph& tasks, const Strategy& strategy, const ReshardPlan& ways,
                 const ReshardSeconds& pull, const ReshardSeconds& push)
      : tasks_(tasks),
        strategy_(strategy),
        ways_(ways),
        devices_(pull),
        seconds_(tasks.nodes.size() + (2 * ways.moves.size() + 1) * pull.devices.size()) {
    copy_tasks();
    for (std::size_t u = 0; u < units(); ++u) {
      for (std::size_t d = 0; d < pull.devices.size(); ++d) {
        seconds_[pull_of(u, d)] = pull.seconds[u][d];
        seconds_[push_of(u, d)] = push.seconds[u][d];
        if (u > 0) add(pull_of(u - 1, d), pull_of(u, d));
        if (u > 0) add(push_of(u, d), push_of(u - 1, d));
      }
    }
    for (std::size_t d = 0; d < pull.devices.size(); ++d)
      add(pull_of(units() - 1, d), push_of(units() - 1, d));
    for (std::size_t u = 0; u < units(); ++u) add_unit(u);
    for (const auto& [pair, unit] : last_) add(push_of(unit, pair.first), update_of(pair.second));
  }

  void set_update(DeviceId device, double seconds) {
    seconds_[update_of(devices_.place_of(device))] = seconds;
  }

  [[nodiscard]] double total() const {
    const TaskGraph graph = build_task_graph(seconds_.size(), edges_);
    return calculate_times<double>(graph, graph.arrange_tasks(seconds_), graph.arrange_edges(lags_)).total;
  }

 private:
  [[nodiscard]] std::size_t units() const { return ways_.moves.size(); }
  [[nodiscard]] TaskId number(std::size_t block, std::size_t d) const {
    return static_cast<TaskId>(tasks_.nodes.size() + block * devices_.devices.size() + d);
  }
  [[nodiscard]] TaskId pull_of(std::size_t unit, std::size_t d) const { return number(unit, d); }
  [[nodiscard]] TaskId push_of(std::size_t unit, std::size_t d) const { return number(units() + unit, d); }
  [[nodiscard]] TaskId update_of(std::size_t d) const { return number(2 * units(), d); }

  void add(TaskId from, TaskId to, double lag = 0.0) {
    edges_.push_back({from, to});
    lags_.push_back(lag);
  }

  void copy_tasks() {
    const TaskGraph& graph = tasks_.graph;
    for (std::size_t p = 0; p < graph.size(); ++p) {
      seconds_[graph.original(p)] = tasks_.seconds[p];
      std::size_t slot = graph.first_slot(p);
      for (const TaskId before : graph.predecessors(p))
        add(graph.original(before), graph.original(p), tasks_.lags[slot++]);
    }
  }

  /// Places of the devices that a device gets a unit from, whoever passes it on.
  void add_sources(std::size_t unit) {
    sources_.assign(devices_.devices.size(), {});
    for (const bool forwarded : {false, true}) {
      for (const ReshardMove& move : ways_.moves[unit]) {
        if (move.forwarded != forwarded) continue;
        const std::size_t from = devices_.place_of(move.from), to = devices_.place_of(move.to);
        sources_[to].insert(from);
        if (forwarded) sources_[to].insert(sources_[from].begin(), sources_[from].end());
      }
    }
  }

  void add_unit(std::size_t unit) {
    add_sources(unit);
    const std::vector<std::size_t> stages = stages_of_unit(strategy_, unit, units());
    for (std::size_t p = 0; p < stages.size(); ++p) {
      const std::size_t s = stages[p];
      const std::vector<TaskId>& order = tasks_.task_of[p][s];
      if (order.empty()) continue;
      const TaskId first = order.front(), last = order.back();
      const double share = share_before(p, s, unit);
      for (const DeviceId id : strategy_.pipelines[p].devices[s]) {
        const std::size_t d = devices_.place_of(id);
        add(pull_of(unit, d), first, -share * seconds_[first]);
        add(last, push_of(unit, d), -share * seconds_[last]);
        for (const std::size_t other : sources_[d]) {
          if (other != d) {
            add(pull_of(unit, other), first, -share * seconds_[first]);
            add(last, push_of(unit, other), -share * seconds_[last]);
          }
          last_.try_emplace({d, other}, unit);  // units are pushed in reverse order
        }
      }
    }
  }

  /// Share of a stage's task that comes before a unit forward, and after it backward: layers, and the head as one more, take
  /// equal parts, and the embedding none.
  [[nodiscard]] double share_before(std::size_t p, std::size_t stage, std::size_t unit) const {
    const std::vector<std::int32_t>& layers = strategy_.pipelines[p].layers;
    if (unit == 0) return 0.0;
    std::int32_t first = 0;
    for (std::size_t s = 0; s < stage; ++s) first += layers[s];
    const std::int32_t parts = layers[stage] + (stage + 1 == layers.size() ? 1 : 0);
    return static_cast<double>(static_cast<std::int32_t>(unit) - 1 - first) / parts;
  }

  const PlanGraph& tasks_;
  const Strategy& strategy_;
  const ReshardPlan& ways_;
  const ReshardSeconds& devices_;
  std::vector<double> seconds_;  ///< [task]
  std::vector<Edge> edges_;
  std::vector<double> lags_;
  std::vector<std::set<std::size_t>> sources_;  ///< [device] of a unit
  std::map<std::pair<std::size_t, std::size_t>, std::size_t>
      last_;  ///< by sender and receiver, the last unit pushed
};

}  // namespace detail

/// Times a step in which each device has one stream for communication and one for its tasks (Hydraulis, section 5.3,
/// Figure 8). It pulls units in the order of the model and then pushes them in reverse. The first task of a stage reaches a
/// layer when that has been pulled; a layer is pushed once the stage's last task is through with it, on its holders and
/// on those that their gradients pass. A device updates its shard when all of its gradients have come. Within a task, all
/// layers take equal time; communication does not slow computation.
/// @param strategy of the plan's pipelines, with devices. @param optimiser its shards, each number on one device.
/// @param options how many bytes parameters, gradients and the update take; the other options are not looked at.
/// @throws InvalidInput if strategy and plan differ, or layouts are impossible.
/// Complexity: that of `plan_graph` and `plan_reshard`, and O(units * pairs of devices that exchange).
[[nodiscard]] inline DisaggregatedStep disaggregated_step(const Plan& plan, const Strategy& strategy,
                                                          const ParameterShards& optimiser,
                                                          const Device& device,
                                                          const SyncOptions& options = {},
                                                          const ReshardOptions& ways = {}) {
  require(plan.pipelines.size() == strategy.pipelines.size(), "the strategy has ", strategy.pipelines.size(),
          " pipelines; expected the plan's ", plan.pipelines.size());
  for (std::size_t p = 0; p < strategy.pipelines.size(); ++p) {
    require(plan.pipelines[p].layers == strategy.pipelines[p].layers, "pipeline ", p,
            " has other layers in the strategy than in the plan; expected the same");
  }
  require_exclusive(optimiser);
  const ReshardPlan moves = plan_reshard(optimiser, propagation_shards(strategy, plan.model), device, ways);
  const ReshardSeconds pull = reshard_seconds(moves, device, options.weight_bytes),
                       push = reshard_seconds(moves, device, options.gradient_bytes);
  const PlanGraph tasks = plan_graph(plan);
  detail::ReshardOverlap overlap(tasks, strategy, moves, pull, push);
  std::map<DeviceId, double> update;
  for (const ParameterShard& shard : optimiser.shards.values())
    update[shard.device] +=
        static_cast<double>(shard.size()) * options.optimiser_bytes / device.memory_bandwidth;
  DisaggregatedStep step;
  step.apart.propagation = calculate_times<double>(tasks.graph, tasks.seconds, tasks.lags).total;
  for (const auto& [id, seconds] : update) {
    overlap.set_update(id, seconds);
    step.apart.optimiser = std::max(step.apart.optimiser, seconds);
  }
  step.overlapped = step.apart;
  step.apart.interaction = pull.slowest() + push.slowest();
  step.overlapped.interaction = overlap.total() - step.apart.propagation - step.apart.optimiser;
  return step;
}

}  // namespace slimpack
