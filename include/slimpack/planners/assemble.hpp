#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/cost/flops.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/planners/group.hpp"

namespace slimpack {

/// Tokens of a pack that each of `members` pipelines holds.
[[nodiscard]] inline Tokens tokens_per_member(Tokens tokens, std::size_t members) {
  const auto g = static_cast<Tokens>(members);
  return (tokens + g - 1) / g;
}

/// Tokens that each pack of a member brings to it, rounded up: what its workspace has to hold.
struct MemberTokens {
  Tokens most_forward = 0, most_backward = 0;
  std::vector<Tokens> forward, backward;

  explicit MemberTokens(const TokenFlow& flow)
      : forward(rises(flow.forward, most_forward)), backward(rises(flow.backward, most_backward)) {}

 private:
  static std::vector<Tokens> rises(std::span<const double> sums, Tokens& most) {
    std::vector<Tokens> tokens(sums.size() - 1);
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      tokens[k] = static_cast<Tokens>(std::ceil(sums[k + 1] - sums[k] - 1e-6));
      most = std::max(most, tokens[k]);
    }
    return tokens;
  }
};

/// Peak bytes of one stage of one member, by event in the order of its tasks (SlimPack, section 4.3.3): a
/// forward task brings its pack's activations, a backward task the KV gradients of the samples it begins;
/// when it ends, what its tokens held is freed. O(packs).
template <MemoryModel M>
[[nodiscard]] double stage_peak_bytes(const GroupSchedule& schedule, std::size_t member, std::size_t s,
                                      const M& memory, const MemberTokens& tokens) {
  const int again = schedule.recompute[s];
  const double per_token = memory.activation_bytes(s, again), per_gradient = memory.kv_gradient_bytes(s);
  const TokenFlow& flow = schedule.flow[member];
  const LeadTable& leads = schedule.times[member].leads;
  const std::size_t packs = leads.backward_packs();
  double peak = 0.0;
  const auto held_backward = [&](std::size_t k) {
    return per_token * flow.live(leads(k, s), k) + per_gradient * flow.kv_gradients(k);
  };
  for (std::size_t k = 0; k < packs; ++k) peak = std::max(peak, held_backward(k));
  // A workspace is priced only where that of the largest pack would make a new peak.
  const auto task = [&](double held, Pass pass, std::size_t pack, Tokens n, double largest_workspace) {
    const Packs& merged = pass == Pass::forward ? schedule.merged_forward : schedule.merged_backward;
    const std::size_t members = pack < merged.size() ? schedule.times.size() : 1;
    const double bytes = held + exchange_bytes(memory, s, pass, n * static_cast<Tokens>(members), members);
    if (bytes + largest_workspace > peak)
      peak = std::max(peak, bytes + memory.workspace_bytes(s, pass, n, again));
  };
  const double forward_most = memory.workspace_bytes(s, Pass::forward, tokens.most_forward, again);
  const double backward_most = memory.workspace_bytes(s, Pass::backward, tokens.most_backward, again);
  for (std::size_t k = 0, forward = 0; k < packs; ++k) {
    const double gradients = per_gradient * (flow.started[k] - flow.backward[k]);
    for (; forward < leads(k, s); ++forward) {
      task(per_token * flow.live(forward + 1, k) + gradients, Pass::forward, forward, tokens.forward[forward],
           forward_most);
    }
    task(held_backward(k), Pass::backward, k, tokens.backward[k], backward_most);
  }
  return memory.static_bytes(s) + peak;
}

namespace detail {

/// Appends packs to one pass of a plan. `seconds` holds `stages` numbers per pack.
inline void append_packs(const Packs& packs, std::span<const PipelineId> pipelines, const Job& job, Pass pass,
                         std::span<const double> seconds, std::span<const double> transfer,
                         std::span<const std::int32_t> recompute, PassPlan& out) {
  const std::size_t stages = recompute.size();
  const bool context_parallel = pipelines.size() > 1 || job.layout.cp > 1;
  out.packs.append(packs);
  for (std::size_t k = 0; k < packs.size(); ++k) out.flops.push_back(pack_flops(job.model, packs[k], pass));
  out.seconds.add_rows(packs.size(), seconds.first(packs.size() * stages));
  out.pipelines.repeat_row(packs.size(), pipelines);
  if (pass == Pass::backward) out.recompute_layers.repeat_row(packs.size(), recompute);
  out.transfer_seconds.insert(out.transfer_seconds.end(), transfer.begin(),
                              transfer.begin() + static_cast<std::ptrdiff_t>(packs.size()));
  out.sharding.resize(out.packs.size(), context_parallel ? Sharding::per_document : Sharding::none);
}

/// Number of a pack in the plan: merged packs of the group first, then the member's own.
struct PackNumbers {
  PackId merged_first = 0;
  PackId merged_count = 0;
  PackId local_first = 0;

  [[nodiscard]] PackId operator()(PackId index) const {
    return index < merged_count ? merged_first + index : local_first + (index - merged_count);
  }
};

}  // namespace detail

/// Puts schedules of groups together into a plan: packs numbered by group and member, orders of all stages,
/// step time, bubble ratio and memory peaks. The lower bound is left to the caller. O(slices + tasks).
template <MemoryModel M>
[[nodiscard]] Plan assemble_plan(std::string_view planner, std::span<const Tokens> lengths, const Job& job,
                                 std::span<const SampleGroup> groups,
                                 std::span<const GroupSchedule> schedules, const M& memory,
                                 double sync_seconds);

namespace detail {

/// Packs of one group in one pass, for the plan; returns the numbers of each member's packs.
inline std::vector<PackNumbers> append_group(const SampleGroup& group, const GroupSchedule& schedule,
                                             const Job& job, Pass pass, PassPlan& out) {
  const bool forward = pass == Pass::forward;
  const Packs& merged = forward ? schedule.merged_forward : schedule.merged_backward;
  const auto times_of = [&](std::size_t i) -> const PassTimes& {
    return forward ? schedule.times[i].forward : schedule.times[i].backward;
  };
  const std::size_t stages = schedule.recompute.size();
  std::vector<PipelineId> members;
  for (std::size_t i = 0; i < group.size(); ++i) members.push_back(group.first + static_cast<PipelineId>(i));
  PackNumbers numbers{static_cast<PackId>(out.packs.size()), static_cast<PackId>(merged.size()), 0};
  append_packs(merged, members, job, pass, times_of(0).seconds, times_of(0).transfer, schedule.recompute,
               out);
  std::vector<PackNumbers> result;
  for (std::size_t i = 0; i < group.size(); ++i) {
    numbers.local_first = static_cast<PackId>(out.packs.size());
    result.push_back(numbers);
    const std::span<const double> seconds = times_of(i).seconds, transfer = times_of(i).transfer;
    append_packs(forward ? schedule.forward[i] : schedule.backward[i], {&members[i], 1}, job, pass,
                 seconds.subspan(merged.size() * stages), transfer.subspan(merged.size()), schedule.recompute,
                 out);
  }
  return result;
}

/// Makes room for one pass of all groups, so that it is not moved while it grows.
inline void reserve_pass(std::span<const GroupSchedule> schedules, Pass pass, PassPlan& out) {
  std::size_t packs = 0, slices = 0, stages = 0, runs = 0;
  const auto count = [&](const Packs& more, std::size_t members) {
    packs += more.size();
    slices += more.slices().size();
    runs += more.size() * members;
  };
  for (const GroupSchedule& schedule : schedules) {
    const bool forward = pass == Pass::forward;
    const auto& local = forward ? schedule.forward : schedule.backward;
    count(forward ? schedule.merged_forward : schedule.merged_backward, local.size());
    for (const Packs& own : local) count(own, 1);
    stages = std::max(stages, schedule.recompute.size());
  }
  out.packs.reserve(packs, slices);
  out.pipelines.reserve(packs, runs);
  out.flops.reserve(packs);
  out.seconds.reserve(packs, packs * stages);
  out.transfer_seconds.reserve(packs);
  out.sharding.reserve(packs);
  if (pass == Pass::backward) out.recompute_layers.reserve(packs, packs * stages);
}

/// Tasks of stage `s` in their order, with the packs' numbers in the plan.
inline std::vector<Task> stage_order(const PipelineTimes& times, std::size_t s, const PackNumbers& forward,
                                     const PackNumbers& backward) {
  std::vector<Task> order(times.forward.transfer.size() + times.backward.transfer.size());
  std::size_t count = 0;
  for_each_task(times.leads, s, [&](Task task) {
    task.pack = task.pass == Pass::forward ? forward(task.pack) : backward(task.pack);
    order[count++] = task;
  });
  return order;
}

}  // namespace detail

template <MemoryModel M>
Plan assemble_plan(std::string_view planner, std::span<const Tokens> lengths, const Job& job,
                   std::span<const SampleGroup> groups, std::span<const GroupSchedule> schedules,
                   const M& memory, double sync_seconds) {
  Plan plan;
  plan.planner = planner;
  plan.model = job.model;
  plan.device = job.device;
  plan.tokens.assign(lengths.begin(), lengths.end());
  const auto layers = split_layers(job.model.layers, job.layout.pp);
  const std::size_t stages = layers.size();
  double busy = 0.0;
  for (const Pass pass : {Pass::forward, Pass::backward})
    detail::reserve_pass(schedules, pass, pass == Pass::forward ? plan.forward : plan.backward);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const GroupSchedule& schedule = schedules[g];
    const auto forward = detail::append_group(groups[g], schedule, job, Pass::forward, plan.forward);
    const auto backward = detail::append_group(groups[g], schedule, job, Pass::backward, plan.backward);
    for (std::size_t i = 0; i < groups[g].size(); ++i) {
      PipelinePlan pipeline{.id = groups[g].first + static_cast<PipelineId>(i),
                            .tp = job.layout.tp,
                            .cp = job.layout.cp,
                            .layers = layers,
                            .order = {}};
      const PipelineTimes& times = schedule.times[i];
      const MemberTokens tokens(schedule.flow[i]);
      std::vector<double> peaks;
      for (std::size_t s = 0; s < stages; ++s) {
        pipeline.order.push_back(detail::stage_order(times, s, forward[i], backward[i]));
        peaks.push_back(stage_peak_bytes(schedule, i, s, memory, tokens));
      }
      for (const PassTimes* pass : {&times.forward, &times.backward}) {
        for (const double seconds : pass->seconds) busy += seconds;
      }
      plan.pipelines.push_back(std::move(pipeline));
      plan.step.peak_bytes.push_back(std::move(peaks));
    }
    plan.step.pipeline_seconds = std::max(plan.step.pipeline_seconds, schedule.seconds);
  }
  plan.step.sync_seconds = sync_seconds;
  plan.step.seconds = plan.step.pipeline_seconds + sync_seconds;
  const double capacity = plan.step.pipeline_seconds * static_cast<double>(stages * plan.pipelines.size());
  plan.step.bubble_ratio = capacity > 0.0 ? std::max(0.0, 1.0 - busy / capacity) : 0.0;
  return plan;
}

/// States the bound of a finished plan, `seconds` without synchronisation. A cost model that prices a sample
/// above its parts has no such bound; then it is zero and a note says why.
inline void state_lower_bound(double seconds, Plan& plan) {
  const double bound = seconds + plan.step.sync_seconds;
  const bool rounding = bound > plan.step.seconds && bound <= plan.step.seconds * (1.0 + 1e-9);
  plan.step.lower_bound_seconds = rounding ? plan.step.seconds : bound;
  if (plan.step.lower_bound_seconds <= plan.step.seconds) return;
  plan.step.lower_bound_seconds = 0.0;
  plan.notes.push_back("no lower bound: the cost model prices a whole sample above its slices");
}

}  // namespace slimpack
