#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/timeline.hpp"

namespace slimpack::command {

namespace retiming {

/// The strategy that a plan was made for. Pipelines that name no devices get some of their own, stage by stage as
/// layouts number them.
[[nodiscard]] inline Strategy strategy_of(const Plan& plan) {
  std::vector<PipelineSpec> pipelines;
  for (const PipelinePlan& p : plan.pipelines)
    pipelines.push_back({.tp = p.tp, .cp = p.cp, .layers = p.layers, .devices = p.devices});
  DeviceId next = 0;
  std::size_t deepest = 0;
  for (const PipelineSpec& p : pipelines) deepest = std::max(deepest, p.stages());
  for (std::size_t s = 0; s < deepest; ++s) {
    for (PipelineSpec& p : pipelines) {
      if (s >= p.stages() || p.devices.size() > s) continue;
      std::vector<DeviceId>& own = p.devices.emplace_back();
      for (std::int64_t rank = 0; rank < p.ranks_per_stage(); ++rank) own.push_back(next++);
    }
  }
  return slimpack::strategy_of(std::move(pipelines));
}

/// Cost models of one plan's packs, by the kind of their pipelines, the number of their members and how these exchange keys.
template <class MakeCost>
class PackCosts {
 public:
  using Cost =
      decltype(std::declval<MakeCost>()(std::declval<const Strategy&>(), std::uint32_t{}, KeyExchange::ring));

  /// @param make has to outlive this.
  PackCosts(const Plan& plan, const MakeCost& make) : strategy_(strategy_of(plan)), make_(make) {
    for (std::uint32_t k = 0; k < strategy_.kinds(); ++k)
      alone_.push_back(make_(strategy_, k, KeyExchange::ring));
  }

  /// Of pipelines that run packs alone, one model for each kind.
  [[nodiscard]] const std::vector<Cost>& alone() const { return alone_; }

  /// Of a pack that these run together. @param exchange of keys between them; none: a ring.
  [[nodiscard]] const Cost& of(std::span<const PipelineId> members, KeyExchange exchange) {
    const std::uint32_t kind = strategy_.kind[members.front()];
    if (members.size() == 1) return alone_[kind];
    if (exchange == KeyExchange::none) exchange = KeyExchange::ring;
    const auto key = std::tuple(kind, members.size(), exchange);
    const auto found = merged_.find(key);
    if (found != merged_.end()) return found->second;
    const auto group = static_cast<std::int32_t>(members.size());
    return merged_.emplace(key, make_(strategy_, kind, exchange).with_context_parallel(group)).first->second;
  }

 private:
  Strategy strategy_;
  const MakeCost& make_;
  std::vector<Cost> alone_;
  std::map<std::tuple<std::uint32_t, std::size_t, KeyExchange>, Cost> merged_;
};

/// Seconds of a pack on a stage that recomputes so many layers.
template <class Cost>
[[nodiscard]] double stage_seconds(const Cost& cost, std::size_t stage, Pass pass,
                                   std::span<const Slice> pack, std::int32_t recompute_layers) {
  double seconds = cost.pack_seconds(stage, pass);
  for (const Slice& slice : pack) seconds += cost.slice_seconds(stage, slice.begin, slice.end, pass);
  if (recompute_layers == 0) return seconds;
  double layer = recompute_pack_seconds(cost, stage);
  for (const Slice& slice : pack) layer += cost.recompute_seconds(stage, slice.begin, slice.end);
  return seconds + recompute_layers * layer;
}

template <class MakeCost>
void retime_pass(Pass pass, const Plan& plan, PackCosts<MakeCost>& costs, PassPlan& out) {
  out.seconds = {};
  out.transfer_seconds = {};
  out.weight_seconds = {};  // backward packs have all of their time
  for (PackId k = 0; k < out.packs.size(); ++k) {
    const auto& cost = costs.of(out.pipelines[k], out.exchange_of(k));
    const std::span<double> row = out.seconds.add_row(cost.stages());
    const bool recomputes = pass == Pass::backward && out.recompute_layers.size() > 0;
    for (std::size_t s = 0; s < row.size(); ++s)
      row[s] = stage_seconds(cost, s, pass, out.packs[k], recomputes ? out.recompute_layers[k][s] : 0);
    const std::span<double> transfers = out.transfer_seconds.add_row(row.size() - 1);
    for (std::size_t s = 0; s < transfers.size(); ++s)
      transfers[s] = cost.transfer_seconds(s, count_tokens(out.packs[k]), pass);
    out.flops[k] = pack_flops(plan.model, out.packs[k], pass);
  }
}

}  // namespace retiming

/// The same plan for another model of as many layers, on other devices: durations, FLOPs, and what the step costs are
/// computed from another cost model. Its lower bound and peaks of memory are not: they become 0 and unknown.
/// @param plan valid. @param make_cost from a strategy, a kind of its pipelines and the exchange of keys in merged packs to a
/// cost model that recomputes, merges and has `sync_seconds()`.
/// @throws InvalidInput if the model has another number of layers.
template <class MakeCost>
[[nodiscard]] Plan retimed(Plan plan, const Transformer& model, const Device& device,
                           const MakeCost& make_cost) {
  require(model.layers == plan.model.layers, "the model has ", model.layers, " layers; expected the ",
          plan.model.layers, " that the plan is for");
  plan.model = model;
  plan.device = device;
  retiming::PackCosts<MakeCost> costs(plan, make_cost);
  PassPlan forward = plan.forward, backward = plan.backward;
  retiming::retime_pass(Pass::forward, plan, costs, forward);
  retiming::retime_pass(Pass::backward, plan, costs, backward);
  plan.forward = std::move(forward);
  plan.backward = std::move(backward);
  plan.step = {};
  for (const auto& cost : costs.alone())
    plan.step.sync_seconds = std::max(plan.step.sync_seconds, cost.sync_seconds());
  const Timeline times = time_plan(plan);
  plan.step.pipeline_seconds = times.seconds;
  plan.step.seconds = times.seconds + plan.step.sync_seconds;
  plan.step.bubble_ratio = times.bubble_sum.ratio();
  return plan;
}

}  // namespace slimpack::command
