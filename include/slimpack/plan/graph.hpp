#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/dag/graph.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack {

/// The task graph of a plan. A merged pack is one task per stage, shared by its members: they run it in lockstep.
struct PlanGraph {
  struct Node {
    PipelineId pipeline = 0;  ///< of a merged task, the first member
    std::uint32_t stage = 0;
    Task task;
  };

  TaskGraph graph;
  std::vector<Node> nodes;                                   ///< by task number
  std::vector<double> seconds;                               ///< by position in the graph
  std::vector<std::vector<std::vector<TaskId>>> task_of;     ///< [pipeline][stage][place in the order] task number
};

[[nodiscard]] inline std::string to_string(const PlanGraph::Node& node) {
  return concat("pipeline ", node.pipeline, " stage ", node.stage, " ", to_string(node.task));
}

namespace detail {

/// Collects tasks and edges of a plan whose ids are in range.
class PlanGraphBuilder {
 public:
  explicit PlanGraphBuilder(const Plan& plan) : plan_(plan) {
    first_[0].assign(plan.forward.packs.size(), none);
    first_[1].assign(plan.backward.packs.size(), none);
  }

  [[nodiscard]] PlanGraph build() {
    add_tasks();
    add_stage_orders();
    add_stage_edges();
    add_slice_edges(plan_.forward.packs, 0);
    add_slice_edges(plan_.backward.packs, 1);
    add_loss_edges();
    auto& nodes = result_.nodes;
    result_.graph = TaskGraphBuilder().build(nodes.size(), edges_, [&](TaskId t) { return to_string(nodes[t]); });
    result_.seconds.resize(nodes.size());
    for (std::size_t p = 0; p < nodes.size(); ++p) {
      const PlanGraph::Node& node = nodes[result_.graph.original(p)];
      result_.seconds[p] = node.task.pass == Pass::weight ? 0.0 : plan_.of(node.task.pass).seconds[node.task.pack][node.stage];
    }
    return std::move(result_);
  }

 private:
  static constexpr TaskId none = ~TaskId{0};
  static std::size_t index(Pass pass) { return pass == Pass::forward ? 0 : 1; }

  [[nodiscard]] std::size_t stages_of(const PassPlan& pass, std::size_t pack) const { return pass.seconds[pack].size(); }

  /// One task per pack and stage; stages of a pack stand together.
  void add_tasks() {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const PassPlan& packs = plan_.of(pass);
      for (std::size_t k = 0; k < packs.packs.size(); ++k) {
        first_[index(pass)][k] = static_cast<TaskId>(result_.nodes.size());
        for (std::size_t s = 0; s < stages_of(packs, k); ++s) {
          result_.nodes.push_back({packs.pipelines[k].front(), static_cast<std::uint32_t>(s),
                                   {pass, static_cast<PackId>(k)}});
        }
      }
    }
  }

  [[nodiscard]] TaskId task(Task t, std::size_t stage) const {
    return first_[index(t.pass)][t.pack] + static_cast<TaskId>(stage);
  }

  /// A weight-gradient task has a number of its own; its backward task precedes it in the stage's order.
  void add_stage_orders() {
    for (const PipelinePlan& pipeline : plan_.pipelines) {
      auto& stages = result_.task_of.emplace_back();
      for (std::size_t s = 0; s < pipeline.order.size(); ++s) {
        auto& numbers = stages.emplace_back();
        for (const Task t : pipeline.order[s]) {
          TaskId number = none;
          if (t.pass == Pass::weight) {
            number = static_cast<TaskId>(result_.nodes.size());
            result_.nodes.push_back({pipeline.id, static_cast<std::uint32_t>(s), t});
            edges_.push_back({task(t, s), number});
          } else {
            number = task(t, s);
          }
          if (!numbers.empty()) edges_.push_back({numbers.back(), number});
          numbers.push_back(number);
        }
      }
    }
  }

  void add_stage_edges() {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const PassPlan& packs = plan_.of(pass);
      for (std::size_t k = 0; k < packs.packs.size(); ++k) {
        for (std::size_t s = 1; s < stages_of(packs, k); ++s) {
          const TaskId upper = first_[index(pass)][k] + static_cast<TaskId>(s);
          const double lag = packs.transfer_seconds[k];
          edges_.push_back(pass == Pass::forward ? Edge{upper - 1, upper, lag} : Edge{upper, upper - 1, lag});
        }
      }
    }
  }

  /// Slices of one sample in token order, or in reverse.
  void add_slice_edges(const Packs& packs, std::size_t pass) {
    pieces_.clear();
    for (std::size_t k = 0; k < packs.size(); ++k) {
      for (const Slice& slice : packs[k]) pieces_.push_back({slice.sample, slice.begin, static_cast<PackId>(k)});
    }
    std::sort(pieces_.begin(), pieces_.end());
    for (std::size_t i = 1; i < pieces_.size(); ++i) {
      if (pieces_[i].sample != pieces_[i - 1].sample || pieces_[i].pack == pieces_[i - 1].pack) continue;
      PackId before = pieces_[i - 1].pack, after = pieces_[i].pack;
      if (pass == 1) std::swap(before, after);
      const PassPlan& packs_of_pass = pass == 0 ? plan_.forward : plan_.backward;
      for (std::size_t s = 0; s < stages_of(packs_of_pass, before); ++s) {
        edges_.push_back({first_[pass][before] + static_cast<TaskId>(s), first_[pass][after] + static_cast<TaskId>(s)});
      }
    }
  }

  /// On the last stage a backward pack waits for every forward pack that holds a part of its samples. The last
  /// part suffices: forward slices run in order.
  void add_loss_edges() {
    std::vector<PackId> last(plan_.tokens.size(), ~PackId{0});
    for (std::size_t k = 0; k < plan_.forward.packs.size(); ++k) {
      for (const Slice& slice : plan_.forward.packs[k]) {
        if (slice.end == plan_.tokens[slice.sample]) last[slice.sample] = static_cast<PackId>(k);
      }
    }
    for (std::size_t k = 0; k < plan_.backward.packs.size(); ++k) {
      PackId previous = ~PackId{0};
      for (const Slice& slice : plan_.backward.packs[k]) {
        const PackId forward = last[slice.sample];
        if (forward == ~PackId{0} || forward == previous) continue;
        previous = forward;
        edges_.push_back({first_[0][forward] + static_cast<TaskId>(stages_of(plan_.forward, forward) - 1),
                          first_[1][k] + static_cast<TaskId>(stages_of(plan_.backward, k) - 1)});
      }
    }
  }

  struct Piece {
    SampleId sample;
    Tokens begin;
    PackId pack;
    friend auto operator<=>(const Piece&, const Piece&) = default;
  };

  const Plan& plan_;
  PlanGraph result_;
  std::vector<Edge> edges_;
  std::vector<Piece> pieces_;
  std::vector<TaskId> first_[2];
};

}  // namespace detail

/// The task graph of a plan whose ids are in range: stage to stage with transfers, slices of a sample in order,
/// backward after all forward slices on the last stage, and the stages' own orders (SlimPack, section 4.3.1).
/// @throws InvalidInput naming the tasks of a cycle.
/// Complexity: O(tasks + slices log slices).
[[nodiscard]] inline PlanGraph plan_graph(const Plan& plan) { return detail::PlanGraphBuilder(plan).build(); }

}  // namespace slimpack
