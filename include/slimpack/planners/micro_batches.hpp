#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/cost/sharded_packs.hpp"
#include "slimpack/planners/assemble.hpp"
#include "slimpack/planners/deal_micro_batches.hpp"
#include "slimpack/planners/one_f_one_b.hpp"
#include "slimpack/planners/pack_sharding.hpp"
#include "slimpack/schedule/lower_bound.hpp"

namespace slimpack {

struct MicroBatchOptions {
  ShardingPolicy sharding = ShardingPolicy::mixed;
  ReplicaDealing dealing = ReplicaDealing::balanced;
  MicroBatchOrder order = MicroBatchOrder::fastest;
};

/// Plans iterations of whole documents in micro-batches on a 4D layout (tp, cp, pp, dp), as WLB-LLM and its
/// baselines run them (sections 2.1 and 6.1): each replica runs its micro-batches in 1F1B order; those are
/// sharded over the context-parallel ranks, of which the slowest one sets the pace; the least uniform
/// recomputation that fits the replica's own micro-batches into memory. Keeps its memory between calls.
template <CostModel C, MemoryModel M, AttentionModel A>
class MicroBatchPlanner {
 public:
  /// @throws InvalidInput if the job is impossible or has no room for tokens.
  MicroBatchPlanner(Job job, C cost, M memory, A attention, MicroBatchOptions options = {})
      : job_(std::move(job)),
        layers_(valid_layers(job_)),
        cost_(std::move(cost)),
        memory_(std::move(memory)),
        sharder_(std::move(attention), job_.layout.cp, options.sharding),
        options_(options) {
    require_room(memory_, layers_.size());
    require(cost_.stages() == layers_.size(), "the cost model has ", cost_.stages(),
            " stages; expected pp = ", layers_.size());
  }

  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] const C& cost() const { return cost_; }
  [[nodiscard]] const M& memory() const { return memory_; }
  [[nodiscard]] const A& attention() const { return sharder_.attention(); }
  [[nodiscard]] std::span<const std::int32_t> layers() const { return layers_; }

  /// Seconds of a whole document over all stages, in both passes, its attention perfectly shared among the
  /// context-parallel ranks (Wa + Wl of WLB-LLM's Eq. 2).
  [[nodiscard]] double document_seconds(Tokens length) const {
    double sum = 0.0;
    if constexpr (SeparableCostModel<C>) {
      const AttentionSeconds kernel = attention().chunk_seconds(0, length);
      const double ranks = job_.layout.cp;
      for (std::size_t s = 0; s < layers_.size(); ++s) {
        for (const Pass pass : {Pass::forward, Pass::backward}) {
          sum += cost_.other_seconds(s, 0, length, pass) +
                 cost_.attention_seconds(s, pass, kernel.forward / ranks, kernel.backward / ranks);
        }
      }
    } else {
      for (const Pass pass : {Pass::forward, Pass::backward}) sum += pipeline_seconds(cost_, 0, length, pass);
    }
    return sum;
  }

  /// @param lengths of all samples. @param micro_batches slices of whole samples, none of them twice; the
  /// others are deferred. Empty ones are left out, those with fewer tokens than ranks join others.
  /// @throws InvalidInput if all tokens are fewer than the context-parallel ranks, a time is no duration, or a
  /// replica's micro-batches do not fit into memory with all layers recomputed.
  /// Complexity: O(slices * stages), sharding each micro-batch, and the local search that balances replicas.
  [[nodiscard]] Plan plan(std::string_view planner, std::span<const Tokens> lengths,
                          const Packs& micro_batches) {
    const std::vector<Packs> replicas = deal(detail::shardable_packs(micro_batches, job_.layout.cp));
    std::vector<std::uint8_t> trained(lengths.size(), 0);
    std::vector<Tokens> trained_lengths;
    for (const Slice& slice : micro_batches.slices()) {
      trained[slice.sample] = 1;
      trained_lengths.push_back(slice.size());
    }
    require_durations(cost_, trained_lengths);

    std::vector<GroupSchedule> schedules;
    std::vector<SampleGroup> groups;
    PackSharding sharding;
    for (const Packs& own : replicas) {
      PackSharding here = sharder_(own);
      schedules.push_back(schedule(own, here, lengths));
      if (options_.order == MicroBatchOrder::fastest) reorder(own, lengths, here, schedules.back());
      groups.push_back({.first = static_cast<PipelineId>(groups.size()), .merged = {}, .local = {{}}});
      sharding.kind.insert(sharding.kind.end(), here.kind.begin(), here.kind.end());
      for (std::size_t k = 0; k < own.size(); ++k) sharding.per_document.repeat_row(1, here.per_document[k]);
    }
    Plan plan =
        assemble_plan(planner, lengths, job_, groups, std::move(schedules), memory_, sync_seconds(cost_));
    for (PassPlan* const pass : {&plan.forward, &plan.backward}) {
      pass->sharding = sharding.kind;
      if (!sharding.per_document.values().empty()) pass->per_document = sharding.per_document;
    }
    for (SampleId id = 0; id < lengths.size(); ++id) {
      if (trained[id] == 0) plan.deferred.push_back(id);
    }
    state_lower_bound(lower_bound(trained_lengths), plan);
    return plan;
  }

 private:
  static std::vector<std::int32_t> valid_layers(const Job& job) {
    validate(job);
    return split_layers(job.model.layers, job.layout.pp);
  }

  /// Every replica gets as many, where an empty one has a price: else a plan would hold tasks of no time.
  [[nodiscard]] std::vector<Packs> deal(const Packs& packs) const {
    const auto replicas = static_cast<std::size_t>(job_.layout.dp);
    std::vector<std::uint32_t> replica(packs.size());
    if (options_.dealing == ReplicaDealing::balanced && replicas > 1) {
      std::vector<double> work(packs.size(), 0.0);
      for (std::size_t k = 0; k < packs.size(); ++k) {
        for (const Slice& slice : packs[k]) work[k] += document_seconds(slice.size());
      }
      replica = detail::deal_balanced(work, replicas);
    } else {
      for (std::size_t k = 0; k < packs.size(); ++k) replica[k] = static_cast<std::uint32_t>(k % replicas);
    }
    std::vector<Packs> dealt(replicas);
    for (std::size_t k = 0; k < packs.size(); ++k) {
      for (const Slice& slice : packs[k]) dealt[replica[k]].add(slice);
      dealt[replica[k]].close();
    }
    bool priced = true;
    for (std::size_t s = 0; s < layers_.size(); ++s)
      priced =
          priced && cost_.pack_seconds(s, Pass::forward) > 0 && cost_.pack_seconds(s, Pass::backward) > 0;
    const std::size_t count = std::max<std::size_t>(1, (packs.size() + replicas - 1) / replicas);
    for (Packs& own : dealt) {
      while (priced && own.size() < count) own.close();
    }
    return dealt;
  }

  /// 1F1B with the least uniform recomputation that fits.
  [[nodiscard]] GroupSchedule schedule(const Packs& own, const PackSharding& sharding,
                                       std::span<const Tokens> lengths) {
    GroupSchedule one = order_one_f_one_b(own, lengths, 1.0, layers_.size());
    const MemberTokens tokens(one.flow[0]);
    const auto fits = [&](std::int32_t recompute) {
      one.recompute = uniform_recompute(layers_, recompute);
      for (std::size_t s = 0; s < layers_.size(); ++s) {
        if (stage_peak_bytes(one, 0, s, memory_, tokens) > memory_.capacity_bytes()) return false;
      }
      return true;
    };
    const std::int32_t most = RecomputingCostModel<C> ? layers_.front() : 0;
    std::int32_t recompute = 0;
    while (recompute <= most && !fits(recompute)) ++recompute;
    require(recompute <= most, "micro-batches of up to ", tokens.most_forward, " tokens do not fit into ",
            memory_.capacity_bytes() / 1e9, " GB per device with all layers recomputed; expected ",
            "a shorter context, more context parallelism, more stages or more memory");
    one.memory_bound = recompute > 0;
    PipelineTimes& times = one.times.members[0];
    const auto time = [&](const C& cost) {
      append_sharded_pack_times(own, sharding.seconds, cost, Pass::forward, times.forward.seconds,
                                times.forward.transfer);
      append_sharded_pack_times(own, sharding.seconds, cost, Pass::backward, times.backward.seconds,
                                times.backward.transfer);
    };
    if constexpr (RecomputingCostModel<C>) {
      if (recompute > 0) {
        time(cost_.with_recompute(one.recompute));
      } else {
        time(cost_);
      }
    } else {
      time(cost_);
    }
    one.seconds = makespan_(one.times, layers_.size());
    return one;
  }

  /// Goes over to another order of the packs if that shortens the step.
  void reorder(const Packs& own, std::span<const Tokens> lengths, PackSharding& sharding,
               GroupSchedule& best) {
    const std::size_t stages = layers_.size();
    const PassTimes &forward = best.times.members[0].forward, &backward = best.times.members[0].backward;
    std::vector<double> durations(own.size(), 0.0);
    for (std::size_t k = 0; k < own.size(); ++k) {
      for (std::size_t s = 0; s < stages; ++s)
        durations[k] += forward.seconds[k * stages + s] + backward.seconds[k * stages + s];
    }
    double least = best.seconds;
    std::vector<std::uint32_t> chosen;
    GroupTimes times = best.times;
    for (const auto& order : detail::pack_orders(durations)) {
      times.members[0].forward = detail::reordered(forward, order, stages);
      times.members[0].backward = detail::reordered(backward, order, stages);
      const double seconds = makespan_(times, stages);
      if (seconds >= least) continue;
      least = seconds;
      chosen = order;
    }
    if (chosen.empty()) return;
    Packs packs;
    PackSharding other;
    for (const std::uint32_t k : chosen) {
      for (const Slice& slice : own[k]) packs.add(slice);
      packs.close();
      other.kind.push_back(sharding.kind[k]);
      other.seconds.push_back(sharding.seconds[k]);
      other.per_document.repeat_row(1, sharding.per_document[k]);
    }
    GroupSchedule candidate = schedule(packs, other, lengths);
    if (candidate.seconds >= best.seconds) return;  // its order may need more recomputation
    best = std::move(candidate);
    sharding = std::move(other);
  }

  /// Of any plan of the samples that are trained; attention at the kernel's best rate, as far as that is known.
  [[nodiscard]] double lower_bound(std::span<const Tokens> lengths) const {
    if (lengths.empty()) return 0.0;
    const auto replicas = static_cast<std::size_t>(job_.layout.dp);
    if constexpr (SeparableCostModel<C>) {
      AttentionSeconds least;
      if constexpr (requires { attention().least_seconds_per_twice_pair(); }) {
        least = attention().least_seconds_per_twice_pair();
        least = {least.forward / job_.layout.cp, least.backward / job_.layout.cp};
      }
      return step_lower_bound(lengths, replicas, LeastAttentionCost<C>(cost_, least)).seconds();
    } else {
      return step_lower_bound(lengths, replicas, cost_).seconds();
    }
  }

  Job job_;
  std::vector<std::int32_t> layers_;
  C cost_;
  M memory_;
  PackSharder<A> sharder_;
  MicroBatchOptions options_;
  GroupMakespan makespan_;
};

}  // namespace slimpack
