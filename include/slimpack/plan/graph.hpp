#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/dag/task_graph.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack {

/// The task graph of a plan. A merged pack is one task per stage, shared by its members: they run it in
/// lockstep, so it starts when all of them are ready. A weight-gradient task (`W7`) comes after its backward
/// task; each member has its own.
struct PlanGraph {
  struct Node {
    PipelineId pipeline = 0;  ///< of a merged task, the first member
    std::uint32_t stage = 0;
    Task task;

    friend bool operator==(const Node&, const Node&) = default;
  };

  TaskGraph graph;
  std::vector<Node> nodes;      ///< by task number
  std::vector<double> seconds;  ///< duration, by position in the graph
  std::vector<double> lags;     ///< transfer, by slot in the graph
  std::vector<std::vector<std::vector<TaskId>>>
      task_of;  ///< [pipeline][stage][place in the order] task number
};

[[nodiscard]] inline std::string to_string(const PlanGraph::Node& node) {
  return concat("pipeline ", node.pipeline, " stage ", node.stage, " ", to_string(node.task));
}

namespace detail {

/// The slices of a pass by sample, in token order, each with its pack.
class SampleSlices {
 public:
  struct Piece {
    Tokens begin = 0;
    Tokens end = 0;
    PackId pack = 0;
  };

  /// @param samples all ids are below. O(slices + samples), and a sort of a sample's slices that aren't in
  /// order.
  SampleSlices(const Packs& packs, std::size_t samples)
      : offsets_(samples + 1, 0), pieces_(packs.slices().size()) {
    for (const Slice& slice : packs.slices()) ++offsets_[slice.sample + 1];
    for (std::size_t i = 0; i < samples; ++i) offsets_[i + 1] += offsets_[i];
    std::vector<std::size_t> cursor(offsets_.begin(), offsets_.end());
    for (std::size_t k = 0; k < packs.size(); ++k) {
      for (const Slice& slice : packs[k]) {
        pieces_[cursor[slice.sample]++] = {slice.begin, slice.end, static_cast<PackId>(k)};
      }
    }
    const auto earlier = [](const Piece& a, const Piece& b) { return a.begin < b.begin; };
    for (std::size_t i = 0; i < samples; ++i) {
      const std::span<Piece> own(pieces_.data() + offsets_[i], pieces_.data() + offsets_[i + 1]);
      if (!std::is_sorted(own.begin(), own.end(), earlier)) std::stable_sort(own.begin(), own.end(), earlier);
    }
  }

  [[nodiscard]] std::size_t size() const { return offsets_.size() - 1; }
  [[nodiscard]] std::span<const Piece> operator[](std::size_t sample) const {
    return {pieces_.data() + offsets_[sample], pieces_.data() + offsets_[sample + 1]};
  }

 private:
  std::vector<std::size_t> offsets_;
  std::vector<Piece> pieces_;
};

/// Duration of a task on a stage. Where a backward pack has no `weight_seconds`, its `seconds` hold those of its
/// weight-gradient task, which then takes no time.
[[nodiscard]] inline double task_seconds(const Plan& plan, Task task, std::size_t stage) {
  if (task.pass != Pass::weight) return plan.of(task.pass).seconds[task.pack][stage];
  const Ragged<double>& weights = plan.backward.weight_seconds;
  return weights.empty() || weights[task.pack].empty() ? 0.0 : weights[task.pack][stage];
}

/// Collects tasks and edges of a plan whose ids are in range.
class PlanGraphBuilder {
 public:
  explicit PlanGraphBuilder(const Plan& plan)
      : plan_(plan),
        forward_(plan.forward.packs, plan.tokens.size()),
        backward_(plan.backward.packs, plan.tokens.size()) {}

  [[nodiscard]] PlanGraph build() {
    for (const Pass pass : {Pass::forward, Pass::backward}) add_tasks(pass);
    add_stage_orders();
    for (const Pass pass : {Pass::forward, Pass::backward}) add_stage_edges(pass);
    add_slice_edges();
    add_loss_edges();
    add_phase_edges();
    const auto& nodes = result_.nodes;
    result_.graph = build_task_graph(nodes.size(), edges_, [&](TaskId t) { return to_string(nodes[t]); });
    result_.lags = result_.graph.arrange_edges(lags_);
    result_.seconds.resize(nodes.size());
    for (std::size_t p = 0; p < nodes.size(); ++p) {
      result_.seconds[p] =
          task_seconds(plan_, nodes[result_.graph.original(p)].task, nodes[result_.graph.original(p)].stage);
    }
    return std::move(result_);
  }

 private:
  static std::size_t index(Pass pass) { return pass == Pass::forward ? 0 : 1; }

  [[nodiscard]] std::size_t stages_of(Pass pass, std::size_t pack) const {
    return plan_.of(pass).seconds[pack].size();
  }

  [[nodiscard]] TaskId task(Pass pass, std::size_t pack, std::size_t stage) const {
    return first_[index(pass)][pack] + static_cast<TaskId>(stage);
  }

  void add_edge(TaskId from, TaskId to, double lag = 0.0) {
    edges_.push_back({from, to});
    lags_.push_back(lag);
  }

  /// One task per pack and stage; stages of a pack stand together.
  void add_tasks(Pass pass) {
    const PassPlan& packs = plan_.of(pass);
    for (std::size_t k = 0; k < packs.packs.size(); ++k) {
      first_[index(pass)].push_back(static_cast<TaskId>(result_.nodes.size()));
      for (std::size_t s = 0; s < stages_of(pass, k); ++s) {
        result_.nodes.push_back(
            {packs.pipelines[k].front(), static_cast<std::uint32_t>(s), {pass, static_cast<PackId>(k)}});
      }
    }
  }

  void add_stage_orders() {
    for (const PipelinePlan& pipeline : plan_.pipelines) {
      auto& stages = result_.task_of.emplace_back();
      for (std::size_t s = 0; s < pipeline.order.size(); ++s) {
        auto& numbers = stages.emplace_back();
        numbers.reserve(pipeline.order[s].size());
        for (const Task t : pipeline.order[s]) {
          const TaskId number =
              t.pass == Pass::weight ? add_weight_task(pipeline.id, s, t) : task(t.pass, t.pack, s);
          if (!numbers.empty()) add_edge(numbers.back(), number);
          numbers.push_back(number);
        }
      }
    }
  }

  TaskId add_weight_task(PipelineId pipeline, std::size_t stage, Task t) {
    const auto number = static_cast<TaskId>(result_.nodes.size());
    result_.nodes.push_back({pipeline, static_cast<std::uint32_t>(stage), t});
    add_edge(task(Pass::backward, t.pack, stage), number);
    return number;
  }

  void add_stage_edges(Pass pass) {
    const PassPlan& packs = plan_.of(pass);
    for (std::size_t k = 0; k < packs.packs.size(); ++k) {
      for (std::size_t s = 1; s < stages_of(pass, k); ++s) {
        const TaskId upper = task(pass, k, s - 1), lower = task(pass, k, s);
        add_edge(pass == Pass::forward ? upper : lower, pass == Pass::forward ? lower : upper,
                 packs.transfer_seconds[k][s - 1]);
      }
    }
  }

  /// Slices of one sample in token order, or in reverse.
  void add_slice_edges() {
    for (std::size_t sample = 0; sample < plan_.tokens.size(); ++sample) {
      for (std::size_t i = 1; i < forward_[sample].size(); ++i) {
        add_pack_edges(Pass::forward, forward_[sample][i - 1].pack, forward_[sample][i].pack);
      }
      for (std::size_t i = 1; i < backward_[sample].size(); ++i) {
        add_pack_edges(Pass::backward, backward_[sample][i].pack, backward_[sample][i - 1].pack);
      }
    }
  }

  void add_pack_edges(Pass pass, PackId before, PackId after) {
    if (before == after) return;
    const std::size_t stages = std::min(stages_of(pass, before), stages_of(pass, after));
    for (std::size_t s = 0; s < stages; ++s) add_edge(task(pass, before, s), task(pass, after, s));
  }

  /// On the last stage a backward pack waits for all forward slices of its samples. The forward pack of a
  /// sample's last slice suffices, because the others come before it.
  void add_loss_edges() {
    for (std::size_t k = 0; k < plan_.backward.packs.size(); ++k) {
      PackId previous = ~PackId{0};
      for (const Slice& slice : plan_.backward.packs[k]) {
        if (forward_[slice.sample].empty()) continue;
        const PackId forward = forward_[slice.sample].back().pack;
        if (forward == previous) continue;
        previous = forward;
        add_edge(task(Pass::forward, forward, stages_of(Pass::forward, forward) - 1),
                 task(Pass::backward, k, stages_of(Pass::backward, k) - 1));
      }
    }
  }

  /// No stage of a phase begins before all of the phase before it have ended, and parameters have moved. Phases without tasks
  /// only take their switches.
  void add_phase_edges() {
    if (plan_.phases() == 1) return;
    std::vector<std::vector<TaskId>> first(plan_.phases()), last(plan_.phases());
    for (std::size_t p = 0; p < plan_.pipelines.size(); ++p) {
      const auto phase = static_cast<std::size_t>(plan_.pipelines[p].phase);
      for (const std::vector<TaskId>& stage : result_.task_of[p]) {
        if (stage.empty()) continue;
        first[phase].push_back(stage.front());
        last[phase].push_back(stage.back());
      }
    }
    std::size_t before = 0;
    double lag = 0.0;
    for (std::size_t phase = 1; phase < plan_.phases(); ++phase) {
      lag += plan_.step.switch_seconds[phase - 1];
      if (first[phase].empty()) continue;
      for (const TaskId from : last[before]) {
        for (const TaskId to : first[phase]) add_edge(from, to, lag);
      }
      before = phase;
      lag = 0.0;
    }
  }

  const Plan& plan_;
  SampleSlices forward_, backward_;
  PlanGraph result_;
  std::vector<Edge> edges_;
  std::vector<double> lags_;      // [edge]
  std::vector<TaskId> first_[2];  // [pass][pack] task on the first stage
};

}  // namespace detail

/// The task graph of a plan whose lists fit each other and whose ids are in range (`violations` checks
/// that): stage to stage with transfers, slices of a sample in order, backward after all forward slices on
/// the last stage, the stages' own orders (SlimPack, section 4.3.1), and each phase after the one before it.
/// @throws InvalidInput naming the tasks of a cycle, such as "pipeline 3 stage 2 F12".
/// Complexity: O(tasks + slices * stages), and the square of all stages for each switch between phases.
[[nodiscard]] inline PlanGraph plan_graph(const Plan& plan) { return detail::PlanGraphBuilder(plan).build(); }

}  // namespace slimpack
