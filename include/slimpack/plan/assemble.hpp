#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/cost/flops.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/schedule/placed_schedule.hpp"
#include "slimpack/sharding/by_position.hpp"

namespace slimpack {

namespace detail {

/// Appends how ranks share a pack: by position if the prices did not decide, as they know of no context-parallel ranks.
inline void append_sharing(const PackSharing& sharing, std::size_t k, bool shared, PassPlan& out) {
  const bool known = k < sharing.sharding.size() && sharing.sharding[k] != Sharding::none;
  const Sharding kind = !shared ? Sharding::none : known ? sharing.sharding[k] : Sharding::by_position;
  out.sharding.push_back(kind);
  out.exchange.push_back(shared && known ? sharing.exchange[k] : KeyExchange::none);
  if (kind == Sharding::by_position) {
    const Tokens block = sharing.block > 0 ? sharing.block : default_ownership_block;
    require(out.block == 0 || out.block == block, "packs are shared by position in chunks of ", out.block,
            " and of ", block, " tokens; expected the same for all packs of a plan");
    out.block = block;
  }
  if (kind == Sharding::mixed)
    out.per_document.repeat_row(1, sharing.per_document[k]);
  else
    out.per_document.close();
}

/// Clears the lists that say nothing of any pack, and fills those up that say nothing of the last ones.
inline void finish_lists(PassPlan& out) {
  while (!out.offload_layers.empty() && out.offload_layers.size() < out.packs.size())
    out.offload_layers.close();
  const auto unknown = [](KeyExchange e) { return e == KeyExchange::none; };
  if (std::all_of(out.exchange.begin(), out.exchange.end(), unknown)) out.exchange.clear();
  if (out.per_document.values().empty()) out.per_document.clear();
}

/// Appends the layers of the last backward pack that wait in the host's memory.
inline void append_offload(const Recompute& recompute, std::size_t k, PassPlan& out) {
  if (!recompute.offloads()) return;
  while (out.offload_layers.size() + 1 < out.recompute_layers.size()) out.offload_layers.close();
  for (std::size_t s = 0; s < recompute.stages(); ++s) out.offload_layers.add(recompute.offload(k, s));
  out.offload_layers.close();
}

/// Appends the packs of one pass of a schedule to the plan's.
inline void append_pass(const PlacedSchedule& placed, Pass pass, const Strategy& strategy,
                        const Transformer& model, PassPlan& out) {
  const Schedule& schedule = placed.schedule;
  const bool forward = pass == Pass::forward;
  const PackRows& rows = forward ? schedule.forward : schedule.backward;
  const PassTimes& times = forward ? schedule.forward_times : schedule.backward_times;
  const bool context_parallel = strategy.pipelines[placed.pipelines.front()].cp > 1;
  out.packs.append(rows.packs);
  out.seconds.add_rows(rows.packs.size(), times.seconds);
  out.transfer_seconds.add_rows(rows.packs.size(), times.transfer);
  for (std::size_t k = 0; k < rows.packs.size(); ++k) {
    out.flops.push_back(pack_flops(model, rows.packs[k], pass));
    for (const std::uint32_t place : rows.members[k]) out.pipelines.add(placed.pipelines[place]);
    out.pipelines.close();
    const bool shared = context_parallel || rows.members[k].size() > 1;
    append_sharing(times.sharing, k, shared, out);
    if (forward) continue;
    out.recompute_layers.repeat_row(1, schedule.recompute.row(k));
    append_offload(schedule.recompute, k, out);
  }
}

/// Makes room for one pass of all schedules, so that it is not moved while it grows.
inline void reserve_pass(std::span<const PlacedSchedule> schedules, Pass pass, PassPlan& out) {
  std::size_t packs = 0, slices = 0, runs = 0, seconds = 0;
  for (const PlacedSchedule& placed : schedules) {
    const PackRows& rows = pass == Pass::forward ? placed.schedule.forward : placed.schedule.backward;
    packs += rows.packs.size();
    slices += rows.packs.slices().size();
    runs += rows.members.values().size();
    seconds += rows.packs.size() * placed.schedule.stages();
  }
  out.packs.reserve(packs, slices);
  out.pipelines.reserve(packs, runs);
  out.flops.reserve(packs);
  out.seconds.reserve(packs, seconds);
  out.transfer_seconds.reserve(packs, seconds);
  out.sharding.reserve(packs);
  if (pass == Pass::backward) out.recompute_layers.reserve(packs, seconds);
}

/// Seconds in which stages of all of a schedule's pipelines run packs.
[[nodiscard]] inline double busy_seconds(const Schedule& schedule) {
  double busy = 0.0;
  const auto add = [&](const PackRows& rows, const PassTimes& times) {
    const std::size_t stages = schedule.stages();
    for (std::size_t k = 0; k < rows.packs.size(); ++k) {
      const double* const row = times.seconds.data() + k * stages;
      busy += static_cast<double>(rows.members[k].size()) * std::accumulate(row, row + stages, 0.0);
    }
  };
  add(schedule.forward, schedule.forward_times);
  add(schedule.backward, schedule.backward_times);
  return busy;
}

}  // namespace detail

/// Puts schedules together into a plan: packs numbered one schedule after another, orders of all stages, step time,
/// bubble ratio and peaks of memory. The lower bound is left to the caller.
/// @param schedules of all pipelines of the strategy, each of which is in one of them; those of pipelines of one kind
/// have as many stages as that kind. Each has its peaks of memory (`Scheduler::with_peaks`). Freed as the plan takes them
/// over. @param sync_seconds after the last task.
/// @param switch_seconds between each phase and the next; each phase has schedules.
/// @throws InvalidInput if a schedule lacks its peaks of memory.
/// O(slices + tasks).
[[nodiscard]] inline Plan assemble_plan(std::string_view planner, std::span<const Tokens> lengths,
                                        const Transformer& model, const Device& device,
                                        const Strategy& strategy, std::vector<PlacedSchedule> schedules,
                                        double sync_seconds, std::vector<double> switch_seconds = {}) {
  Plan plan;
  plan.planner = planner;
  plan.model = model;
  plan.device = device;
  plan.tokens.assign(lengths.begin(), lengths.end());
  plan.step.peak_bytes.resize(strategy.pipelines.size());
  double busy = 0.0;
  struct PhaseTime {
    double seconds = 0.0, stages = 0.0;
  };
  std::vector<PhaseTime> phases(switch_seconds.size() + 1);
  for (std::size_t p = 0; p < strategy.pipelines.size(); ++p) {
    const PipelineSpec& spec = strategy.pipelines[p];
    plan.pipelines.push_back({.id = static_cast<PipelineId>(p),
                              .tp = spec.tp,
                              .cp = spec.cp,
                              .layers = spec.layers,
                              .order = {},
                              .devices = spec.devices,
                              .phase = 0});
  }
  detail::reserve_pass(schedules, Pass::forward, plan.forward);
  detail::reserve_pass(schedules, Pass::backward, plan.backward);
  for (PlacedSchedule& next : schedules) {
    const PlacedSchedule placed = std::move(next);
    const auto first_forward = static_cast<PackId>(plan.forward.packs.size()),
               first_backward = static_cast<PackId>(plan.backward.packs.size());
    require(placed.schedule.peak_bytes.size() == placed.pipelines.size(), "a schedule of ",
            placed.pipelines.size(), " pipelines has peaks of memory for ", placed.schedule.peak_bytes.size(),
            "; expected one for each (Scheduler::with_peaks)");
    auto orders = stage_orders(placed.schedule);
    for (std::size_t i = 0; i < placed.pipelines.size(); ++i) {
      for (auto& order : orders[i]) {
        for (Task& task : order) task.pack += task.pass == Pass::forward ? first_forward : first_backward;
      }
      PipelinePlan& pipeline = plan.pipelines[placed.pipelines[i]];
      pipeline.order = std::move(orders[i]);
      pipeline.phase = static_cast<std::int32_t>(placed.phase);
      phases[placed.phase].stages += static_cast<double>(pipeline.stages());
      plan.step.peak_bytes[placed.pipelines[i]] = placed.schedule.peak_bytes[i];
    }
    detail::append_pass(placed, Pass::forward, strategy, model, plan.forward);
    detail::append_pass(placed, Pass::backward, strategy, model, plan.backward);
    busy += detail::busy_seconds(placed.schedule);
    phases[placed.phase].seconds = std::max(phases[placed.phase].seconds, placed.schedule.seconds);
  }
  for (PassPlan* const pass : {&plan.forward, &plan.backward}) detail::finish_lists(*pass);
  double capacity = 0.0;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    if (i > 0) plan.step.pipeline_seconds += switch_seconds[i - 1];
    plan.step.pipeline_seconds += phases[i].seconds;
    capacity += phases[i].seconds * phases[i].stages;
  }
  plan.step.switch_seconds = std::move(switch_seconds);
  plan.step.sync_seconds = sync_seconds;
  plan.step.seconds = plan.step.pipeline_seconds + sync_seconds;
  plan.step.bubble_ratio = capacity > 0.0 ? std::max(0.0, 1.0 - busy / capacity) : 0.0;
  return plan;
}

/// States the bound of a finished plan. @param seconds without synchronisation. @param exists false where the cost model
/// prices a sample above its parts: the bound is then zero and a note says why.
inline void state_lower_bound(double seconds, bool exists, Plan& plan) {
  const double bound = seconds + plan.step.sync_seconds;
  const bool rounding = bound > plan.step.seconds && bound <= plan.step.seconds * (1.0 + 1e-9);
  plan.step.lower_bound_seconds = rounding ? plan.step.seconds : bound;
  if (exists && plan.step.lower_bound_seconds <= plan.step.seconds) return;
  plan.step.lower_bound_seconds = 0.0;
  plan.notes.push_back("no lower bound: the cost model prices a whole sample above its slices");
}

}  // namespace slimpack
