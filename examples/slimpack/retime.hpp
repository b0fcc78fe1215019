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
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/timeline.hpp"

namespace slimpack::command {

namespace retiming {

/// Cost models of one plan's packs, by the layers of their pipeline, their members, and what they recompute.
template <class MakeCost>
class PackCosts {
 public:
  using Cost = decltype(std::declval<MakeCost>()(std::span<const std::int32_t>()));

  PackCosts(const Plan& plan, const MakeCost& make) : plan_(plan), make_(make) {}

  [[nodiscard]] const Cost& of(Pass pass, PackId pack) {
    const PassPlan& packs = plan_.of(pass);
    const auto members = packs.pipelines[pack];
    const std::vector<std::int32_t>& layers = plan_.pipelines[members.front()].layers;
    std::vector<std::int32_t> again(layers.size());
    if (pass == Pass::backward && packs.recompute_layers.size() > 0) {
      const auto row = packs.recompute_layers[pack];
      std::copy(row.begin(), row.end(), again.begin());
    }
    const Key key{layers, members.size(), again};
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    Cost cost = make_(layers).with_recompute(again);
    if (members.size() > 1) cost = cost.with_context_parallel(static_cast<std::int32_t>(members.size()));
    return known_.emplace(key, std::move(cost)).first->second;
  }

 private:
  using Key = std::tuple<std::vector<std::int32_t>, std::size_t, std::vector<std::int32_t>>;

  const Plan& plan_;
  const MakeCost& make_;
  std::map<Key, Cost> known_;
};

template <class MakeCost>
void retime_pass(Pass pass, const Plan& plan, PackCosts<MakeCost>& costs, PassPlan& out) {
  out.seconds = {};
  for (PackId k = 0; k < out.packs.size(); ++k) {
    const auto& cost = costs.of(pass, k);
    const std::span<double> row = out.seconds.add_row(cost.stages());
    for (std::size_t s = 0; s < row.size(); ++s) {
      row[s] = cost.pack_seconds(s, pass);
      for (const Slice& slice : out.packs[k]) row[s] += cost.slice_seconds(s, slice.begin, slice.end, pass);
    }
    out.transfer_seconds[k] = cost.transfer_seconds(count_tokens(out.packs[k]), pass);
    out.flops[k] = pack_flops(plan.model, out.packs[k], pass);
  }
}

}  // namespace retiming

/// The same plan for another model of as many layers, on other devices: durations, FLOPs, and what the step
/// costs are computed anew. Its lower bound and peaks of memory are not: they become 0 and unknown.
/// @param plan valid. @param make_cost from the layers of a pipeline's stages to a cost model that is
/// recomputing and mergeable, and has `sync_seconds()`.
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
  double busy = 0.0, stages = 0.0;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    stages += static_cast<double>(pipeline.stages());
    plan.step.sync_seconds = std::max(plan.step.sync_seconds, make_cost(pipeline.layers).sync_seconds());
  }
  for (const PassPlan* pass : {&plan.forward, &plan.backward}) {
    for (PackId k = 0; k < pass->packs.size(); ++k) {
      for (const double seconds : pass->seconds[k]) busy += seconds * double(pass->pipelines[k].size());
    }
  }
  plan.step.pipeline_seconds = time_plan(plan).seconds;
  plan.step.seconds = plan.step.pipeline_seconds + plan.step.sync_seconds;
  plan.step.bubble_ratio = std::max(0.0, 1.0 - busy / (plan.step.pipeline_seconds * stages));
  return plan;
}

}  // namespace slimpack::command
