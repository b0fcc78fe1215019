#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/dag/memory_profile.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/sharding/member_share.hpp"

namespace slimpack {

/// Bytes that a stage holds from a moment on, until the next point.
struct MemoryPoint {
  double seconds = 0.0;
  double bytes = 0.0;
};

/// Memory of every stage over time.
struct MemoryCurves {
  std::vector<std::vector<std::vector<MemoryPoint>>> stages;  ///< [pipeline][stage], by time
  std::vector<std::vector<double>> peak_bytes;                ///< [pipeline][stage]
  std::vector<std::vector<double>> host_peak_bytes;  ///< [pipeline][stage] of the host's memory, offloaded
};

namespace detail {

/// Looks up what a plan's tasks bring into memory and take out of it, in tokens that a pipeline holds.
class PackMemory {
 public:
  explicit PackMemory(const Plan& plan)
      : plan_(plan), parts_(plan.forward.packs.size()), started_(plan.backward.packs.size()) {
    const SampleSlices forward(plan.forward.packs, plan.tokens.size());
    const SampleSlices backward(plan.backward.packs, plan.tokens.size());
    for (SampleId id = 0; id < plan.tokens.size(); ++id) {
      match(id, forward[id], backward[id]);
      if (!backward[id].empty()) started_[backward[id].back().pack].push_back({id, 0, plan.tokens[id]});
    }
  }

  /// Tokens of a task's pack that a pipeline holds.
  [[nodiscard]] double tokens(PipelineId p, Task task) const {
    return share(p, task)(plan_.of(task.pass).packs[task.pack]);
  }

  /// Tokens of a task's pack.
  [[nodiscard]] Tokens all_tokens(Task task) const {
    return count_tokens(plan_.of(task.pass).packs[task.pack]);
  }

  /// Bytes that a pack's tokens hold from forward to backward, in either pass; each token by the
  /// recomputed and offloaded layers of its backward pack.
  template <MemoryModel M>
  [[nodiscard]] double activations(PipelineId p, Task task, std::size_t stage, const M& memory) const {
    return sum(p, task, [&](PackId backward) {
      return activation_bytes(memory, stage, plan_.backward.recompute_layers[backward][stage],
                              plan_.backward.offload_of(backward, stage));
    });
  }

  /// The same in the host's memory.
  template <MemoryModel M>
  [[nodiscard]] double host(PipelineId p, Task task, std::size_t stage, const M& memory) const {
    return sum(p, task, [&](PackId backward) {
      return host_bytes(memory, stage, plan_.backward.recompute_layers[backward][stage],
                        plan_.backward.offload_of(backward, stage));
    });
  }

  /// Tokens of a task's pack that a pipeline holds and that have offloaded layers on a stage.
  [[nodiscard]] double offloaded(PipelineId p, Task task, std::size_t stage) const {
    if (plan_.backward.offload_layers.empty()) return 0.0;
    return sum(p, task,
               [&](PackId backward) { return plan_.backward.offload_of(backward, stage) > 0 ? 1.0 : 0.0; });
  }

  /// Tokens that a pipeline holds of the samples whose backward pass begins with this pack.
  [[nodiscard]] double started(PipelineId p, PackId backward) const {
    return share(p, {Pass::backward, backward})(started_[backward]);
  }

 private:
  struct Part {
    PackId backward;
    Slice tokens;
  };

  /// Sum of f(backward pack) over the tokens of a task that a pipeline holds.
  template <class F>
  [[nodiscard]] double sum(PipelineId p, Task task, F&& f) const {
    if (task.pass == Pass::backward) return tokens(p, task) * f(task.pack);
    const MemberShare held = share(p, task);
    double total = 0.0;
    for (const Part& part : parts_[task.pack]) total += held(part.tokens) * f(part.backward);
    return total;
  }

  /// How many tokens of a task's pack a pipeline holds.
  [[nodiscard]] MemberShare share(PipelineId p, Task task) const {
    const PassPlan& pass = plan_.of(task.pass);
    const auto members = pass.pipelines[task.pack];
    const bool by_position =
        task.pack < pass.sharding.size() && pass.sharding[task.pack] == Sharding::by_position;
    return {
        .members = members.size(),
        .ranks = static_cast<std::size_t>(plan_.pipelines[p].cp),
        .member = static_cast<std::size_t>(std::find(members.begin(), members.end(), p) - members.begin()),
        .block = by_position ? pass.block : 0};
  }

  /// Which backward packs the tokens of each forward pack of one sample go to.
  void match(SampleId id, std::span<const SampleSlices::Piece> forward,
             std::span<const SampleSlices::Piece> backward) {
    std::size_t f = 0, b = 0;
    while (f < forward.size() && b < backward.size()) {
      const Slice common{id, std::max(forward[f].begin, backward[b].begin),
                         std::min(forward[f].end, backward[b].end)};
      if (common.begin < common.end) parts_[forward[f].pack].push_back({backward[b].pack, common});
      forward[f].end <= backward[b].end ? ++f : ++b;
    }
  }

  const Plan& plan_;
  std::vector<std::vector<Part>> parts_;     // [forward pack] by backward pack
  std::vector<std::vector<Slice>> started_;  // [backward pack]
};

/// The events of one task, from its start to its finish.
template <MemoryModel M>
void add_memory_events(const Plan& plan, const PackMemory& packs, PipelineId p, Task task, std::size_t stage,
                       TaskTime time, const M& memory, std::vector<MemoryEvent<>>& events) {
  if (task.pass == Pass::weight) return;
  const bool backward = task.pass == Pass::backward;
  const double tokens = packs.tokens(p, task), activations = packs.activations(p, task, stage, memory);
  const double gradient = backward ? memory.kv_gradient_bytes(stage) : 0.0;
  const double taken = backward ? gradient * packs.started(p, task.pack) : activations;
  const double given = backward ? activations + gradient * tokens : 0.0;
  const double workspace =
      memory.workspace_bytes(stage, task.pass, static_cast<Tokens>(std::ceil(tokens)),
                             backward ? plan.backward.recompute_layers[task.pack][stage] : 0) +
      exchange_bytes(memory, stage, task.pass, packs.all_tokens(task),
                     plan.of(task.pass).pipelines[task.pack].size(),
                     plan.of(task.pass).exchange_of(task.pack)) +
      transit_bytes(memory, stage, static_cast<Tokens>(std::ceil(packs.offloaded(p, task, stage))));
  const auto resource = static_cast<std::uint32_t>(stage);
  events.push_back({time.start, taken + workspace, resource});
  events.push_back({time.finish, -(given + workspace), resource});
}

/// The most that a stage leaves in the host's memory.
template <MemoryModel M>
[[nodiscard]] double host_peak(const PackMemory& packs, PipelineId p, std::span<const Task> order,
                               std::size_t stage, const M& memory) {
  double held = 0.0, peak = 0.0;
  for (const Task task : order) {
    if (task.pass == Pass::forward) peak = std::max(peak, held += packs.host(p, task, stage, memory));
    if (task.pass == Pass::backward) held -= packs.host(p, task, stage, memory);
  }
  return peak;
}

template <MemoryModel M>
void add_pipeline_memory(const Plan& plan, const PackMemory& packs, const Timeline& timeline, PipelineId p,
                         const M& memory, MemoryCurves& curves) {
  std::vector<double> initial;
  std::vector<MemoryEvent<>> events;
  auto& host = curves.host_peak_bytes.emplace_back();
  for (std::size_t s = 0; s < plan.pipelines[p].order.size(); ++s) {
    initial.push_back(memory.static_bytes(s));
    const auto& order = plan.pipelines[p].order[s];
    host.push_back(host_peak(packs, p, order, s, memory));
    for (std::size_t i = 0; i < order.size(); ++i) {
      add_memory_events(plan, packs, p, order[i], s, timeline.stages[p][s][i], memory, events);
    }
  }
  auto& stages = curves.stages.emplace_back();
  auto& peaks = curves.peak_bytes.emplace_back();
  for (const auto& profile : memory_profiles<double, double>(initial, events)) {
    auto& curve = stages.emplace_back();
    curve.reserve(profile.steps.size());
    for (const auto& step : profile.steps) curve.push_back({step.time, step.amount});
    peaks.push_back(profile.peak);
  }
}

inline void require_memory_input(const Plan& plan, const Timeline& timeline) {
  require(plan.backward.recompute_layers.size() == plan.backward.packs.size(), "the plan's ",
          plan.backward.packs.size(), " backward packs have ", plan.backward.recompute_layers.size(),
          " rows of recompute_layers; expected one for each");
  require(timeline.stages.size() == plan.pipelines.size(), "the timeline has ", timeline.stages.size(),
          " pipelines; expected the plan's ", plan.pipelines.size());
}

}  // namespace detail

/// Memory over time, event by event (SlimPack, section 4.3.3).
/// - Static bytes are always there.
/// - When a forward task starts, its pack's activations and KV cache come, each token's by the
///   `recompute_layers` and `offload_layers` of the backward pack that it will be in. Of offloaded layers
///   (`offloaded_layers`) all but keys and values is in the host's memory, and on its way there while a task runs.
/// - When a backward task starts, the KV gradients of all tokens of the samples that it begins come; when
///   it ends, everything goes that its own tokens held.
/// - Workspace is there while a task runs, and what members of a merged pack exchange.
///
/// Of packs that are shared by position a pipeline counts the tokens that it holds (`MemberShare`), of others that several
/// pipelines share an equal part. Tasks that touch in time follow each other in the stage's order: what one gives back is
/// there for the next.
/// @param timeline of this plan. @param memory model of every pipeline's stages.
/// @throws InvalidInput if the timeline is another plan's, or the backward packs have no
/// `recompute_layers`.
/// Complexity: O(tasks + slices * stages).
template <MemoryModel M>
[[nodiscard]] MemoryCurves memory_over_time(const Plan& plan, const Timeline& timeline, const M& memory) {
  detail::require_memory_input(plan, timeline);
  const detail::PackMemory packs(plan);
  MemoryCurves curves;
  for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
    detail::add_pipeline_memory(plan, packs, timeline, p, memory, curves);
  }
  return curves;
}

/// The same where pipelines differ. @param memory model of each pipeline.
/// @throws InvalidInput also unless there is a model for each pipeline.
template <MemoryModel M>
[[nodiscard]] MemoryCurves memory_over_time(const Plan& plan, const Timeline& timeline,
                                            const std::vector<M>& memory) {
  detail::require_memory_input(plan, timeline);
  require(memory.size() == plan.pipelines.size(), memory.size(), " memory models for ", plan.pipelines.size(),
          " pipelines; expected one for each");
  const detail::PackMemory packs(plan);
  MemoryCurves curves;
  for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
    detail::add_pipeline_memory(plan, packs, timeline, p, memory[p], curves);
  }
  return curves;
}

}  // namespace slimpack
