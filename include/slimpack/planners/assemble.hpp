#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/planners/group_schedule.hpp"

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
  const LeadTable& leads = schedule.times.members[member].leads;
  const std::size_t packs = leads.backward_packs();
  double peak = 0.0;
  std::vector<double> held(packs);  // while each backward pack runs
  for (std::size_t k = 0; k < packs; ++k) {
    held[k] = per_token * flow.live(leads(k, s), k) + per_gradient * flow.kv_gradients(k);
    peak = std::max(peak, held[k]);
  }
  const auto most_beside = [&](Pass pass, const Packs& merged, Tokens most) {
    const auto members = static_cast<Tokens>(merged.empty() ? 1 : schedule.times.members.size());
    return memory.workspace_bytes(s, pass, most, again) +
           exchange_bytes(memory, s, pass, most * members, static_cast<std::size_t>(members));
  };
  const double forward_most = most_beside(Pass::forward, schedule.merged_forward, tokens.most_forward);
  const double backward_most = most_beside(Pass::backward, schedule.merged_backward, tokens.most_backward);
  const auto task = [&](double beside, Pass pass, std::size_t pack, Tokens n) {
    const Packs& merged = pass == Pass::forward ? schedule.merged_forward : schedule.merged_backward;
    const std::size_t members = pack < merged.size() ? schedule.times.members.size() : 1;
    peak = std::max(peak, beside + memory.workspace_bytes(s, pass, n, again) +
                              exchange_bytes(memory, s, pass, n * static_cast<Tokens>(members), members));
  };
  // Tasks are priced only where the largest pack's workspace would make a new peak. Forward tasks in front of a
  // backward one hold no more than it does; of those in a row, the last one holds most.
  const double most = std::max(forward_most, backward_most);
  for (std::size_t k = 0; k < packs; ++k) {
    if (held[k] + most <= peak) continue;
    const double gradients = per_gradient * (flow.started[k] - flow.backward[k]);
    const std::size_t lead = leads(k, s);
    if (per_token * flow.live(lead, k) + gradients + forward_most > peak) {
      for (std::size_t forward = k == 0 ? 0 : leads(k - 1, s); forward < lead; ++forward)
        task(per_token * flow.live(forward + 1, k) + gradients, Pass::forward, forward,
             tokens.forward[forward]);
    }
    task(held[k], Pass::backward, k, tokens.backward[k]);
  }
  return memory.static_bytes(s) + peak;
}

namespace detail {

/// Appends packs to one pass of a plan.
inline void append_packs(const Packs& packs, std::span<const PipelineId> pipelines, const Job& job, Pass pass,
                         const PassTimes& times, std::span<const std::int32_t> recompute, PassPlan& out) {
  const bool context_parallel = pipelines.size() > 1 || job.layout.cp > 1;
  out.packs.append(packs);
  for (std::size_t k = 0; k < packs.size(); ++k) out.flops.push_back(pack_flops(job.model, packs[k], pass));
  out.seconds.add_rows(packs.size(), times.seconds);
  out.pipelines.repeat_row(packs.size(), pipelines);
  if (pass == Pass::backward) out.recompute_layers.repeat_row(packs.size(), recompute);
  out.transfer_seconds.insert(out.transfer_seconds.end(), times.transfer.begin(), times.transfer.end());
  out.sharding.resize(out.packs.size(), context_parallel ? Sharding::per_document : Sharding::none);
}

}  // namespace detail

/// Puts schedules of groups together into a plan: packs numbered by group and member, orders of all stages,
/// step time, bubble ratio and memory peaks. The lower bound is left to the caller. O(slices + tasks).
/// @param schedules of the groups; each is freed once the plan has it, so that both need little more memory than one.
template <MemoryModel M>
[[nodiscard]] Plan assemble_plan(std::string_view planner, std::span<const Tokens> lengths, const Job& job,
                                 std::span<const SampleGroup> groups, std::vector<GroupSchedule> schedules,
                                 const M& memory, double sync_seconds);

namespace detail {

/// Packs of one group in one pass, for the plan; returns for each member the numbers of its packs, merged ones first.
inline std::vector<std::vector<PackId>> append_group(const SampleGroup& group, const GroupSchedule& schedule,
                                                     const Job& job, Pass pass, PassPlan& out) {
  const bool forward = pass == Pass::forward;
  const Packs& merged = forward ? schedule.merged_forward : schedule.merged_backward;
  std::vector<PipelineId> members;
  for (std::size_t i = 0; i < group.size(); ++i) members.push_back(group.first + static_cast<PipelineId>(i));
  std::vector<PackId> merged_numbers(merged.size());
  std::iota(merged_numbers.begin(), merged_numbers.end(), static_cast<PackId>(out.packs.size()));
  append_packs(merged, members, job, pass,
               forward ? schedule.times.merged_forward : schedule.times.merged_backward, schedule.recompute,
               out);
  std::vector<std::vector<PackId>> numbers(group.size(), merged_numbers);
  for (std::size_t i = 0; i < group.size(); ++i) {
    const Packs& packs = forward ? schedule.forward[i] : schedule.backward[i];
    numbers[i].resize(merged.size() + packs.size());
    std::iota(numbers[i].begin() + static_cast<std::ptrdiff_t>(merged.size()), numbers[i].end(),
              static_cast<PackId>(out.packs.size()));
    const PipelineTimes& own = schedule.times.members[i];
    append_packs(packs, {&members[i], 1}, job, pass, forward ? own.forward : own.backward, schedule.recompute,
                 out);
  }
  return numbers;
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

/// Tasks of stage `s` in their order. @param forward, backward the packs' numbers in the plan.
inline std::vector<Task> stage_order(const LeadTable& leads, std::size_t s, std::span<const PackId> forward,
                                     std::span<const PackId> backward) {
  std::vector<Task> order(backward.empty() ? 0 : leads(backward.size() - 1, s) + backward.size());
  for_each_task(leads, s, [&, next = order.data()](Task task) mutable {
    *next++ = {task.pass, task.pass == Pass::forward ? forward[task.pack] : backward[task.pack]};
  });
  return order;
}

/// Seconds in which stages of a group's members run packs.
[[nodiscard]] inline double busy_seconds(const GroupTimes& times) {
  const auto sum = [](const PassTimes& pass) {
    return std::reduce(pass.seconds.begin(), pass.seconds.end());  // several sums at once
  };
  double own = 0.0;
  for (const PipelineTimes& member : times.members) own += sum(member.forward) + sum(member.backward);
  return own +
         static_cast<double>(times.members.size()) * (sum(times.merged_forward) + sum(times.merged_backward));
}

/// Appends a group's packs, and the orders and memory peaks of its members.
template <MemoryModel M>
void append_pipelines(const SampleGroup& group, const GroupSchedule& schedule, const Job& job,
                      const std::vector<std::int32_t>& layers, const M& memory, Plan& plan) {
  const auto forward = append_group(group, schedule, job, Pass::forward, plan.forward);
  const auto backward = append_group(group, schedule, job, Pass::backward, plan.backward);
  for (std::size_t i = 0; i < group.size(); ++i) {
    PipelinePlan pipeline{.id = group.first + static_cast<PipelineId>(i),
                          .tp = job.layout.tp,
                          .cp = job.layout.cp,
                          .layers = layers,
                          .order = {}};
    const MemberTokens tokens(schedule.flow[i]);
    std::vector<double> peaks;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      pipeline.order.push_back(stage_order(schedule.times.members[i].leads, s, forward[i], backward[i]));
      peaks.push_back(stage_peak_bytes(schedule, i, s, memory, tokens));
    }
    plan.pipelines.push_back(std::move(pipeline));
    plan.step.peak_bytes.push_back(std::move(peaks));
  }
}

}  // namespace detail

template <MemoryModel M>
Plan assemble_plan(std::string_view planner, std::span<const Tokens> lengths, const Job& job,
                   std::span<const SampleGroup> groups, std::vector<GroupSchedule> schedules, const M& memory,
                   double sync_seconds) {
  Plan plan;
  plan.planner = planner;
  plan.model = job.model;
  plan.device = job.device;
  plan.tokens.assign(lengths.begin(), lengths.end());
  const auto layers = split_layers(job.model.layers, job.layout.pp);
  for (const Pass pass : {Pass::forward, Pass::backward})
    detail::reserve_pass(schedules, pass, pass == Pass::forward ? plan.forward : plan.backward);
  double busy = 0.0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const GroupSchedule schedule = std::move(schedules[g]);
    detail::append_pipelines(groups[g], schedule, job, layers, memory, plan);
    busy += detail::busy_seconds(schedule.times);
    plan.step.pipeline_seconds = std::max(plan.step.pipeline_seconds, schedule.seconds);
  }
  plan.step.sync_seconds = sync_seconds;
  plan.step.seconds = plan.step.pipeline_seconds + sync_seconds;
  const double capacity =
      plan.step.pipeline_seconds * static_cast<double>(layers.size() * plan.pipelines.size());
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
