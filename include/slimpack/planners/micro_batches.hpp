#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/cost/check.hpp"
#include "slimpack/cost/least_attention.hpp"
#include "slimpack/plan/assemble.hpp"
#include "slimpack/planners/deal_micro_batches.hpp"
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
/// sharded over the context-parallel ranks, of which the slowest one sets the pace; each stage recomputes as few layers
/// as fit its own micro-batches into memory. Keeps its memory between calls.
template <CostModel C, AttentionModel A>
class MicroBatchPlanner {
 public:
  /// @throws InvalidInput if the job is impossible, has no room for tokens, or is not the models'.
  template <MemoryModel M>
  MicroBatchPlanner(Job job, C cost, const M& memory, A attention, MicroBatchOptions options = {})
      : job_(std::move(job)),
        strategy_(layout_strategy(job_)),
        cost_(std::move(cost)),
        prices_(Prices(cost_)),
        memory_((check_models(cost_, memory, strategy_), memory), layers(), RecomputingCostModel<C>),
        sharder_(std::move(attention), job_.layout.cp, options.sharding),
        options_(options) {}

  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] const C& cost() const { return cost_; }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  [[nodiscard]] const A& attention() const { return sharder_.attention(); }
  [[nodiscard]] std::span<const std::int32_t> layers() const { return strategy_.pipelines.front().layers; }

  /// Seconds of a whole document over all stages, in both passes, its attention perfectly shared among the
  /// context-parallel ranks (Wa + Wl of WLB-LLM's Eq. 2).
  [[nodiscard]] double document_seconds(Tokens length) const {
    double sum = 0.0;
    if constexpr (SeparableCostModel<C>) {
      const AttentionSeconds kernel = attention().chunk_seconds(0, length);
      const double ranks = job_.layout.cp;
      for (std::size_t s = 0; s < cost_.stages(); ++s) {
        for (const Pass pass : {Pass::forward, Pass::backward}) {
          const double layer = pass == Pass::forward ? kernel.forward : kernel.backward;
          sum += cost_.other_seconds(s, 0, length, pass) + cost_.attention_seconds(s, pass, layer / ranks);
        }
      }
    } else {
      for (const Pass pass : {Pass::forward, Pass::backward})
        sum += prices_.alone().pipeline_seconds(0, length, pass);
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

    Scheduler scheduler(lengths, prices_, memory_);
    std::vector<PlacedSchedule> placed;
    PackSharding sharding;
    for (const Packs& own : replicas) {
      Replica replica = schedule(own, sharder_(own), scheduler);
      if (options_.order == MicroBatchOrder::fastest) reorder(replica, scheduler);
      sharding.kind.insert(sharding.kind.end(), replica.sharding.kind.begin(), replica.sharding.kind.end());
      sharding.per_document.append(replica.sharding.per_document);
      auto peaks = scheduler.peak_bytes(replica.schedule);
      placed.push_back(
          {{static_cast<PipelineId>(placed.size())}, std::move(replica.schedule), std::move(peaks)});
    }
    Plan plan = assemble_plan(planner, lengths, job_.model, job_.device, strategy_, std::move(placed),
                              sync_seconds(cost_));
    for (PassPlan* const pass : {&plan.forward, &plan.backward}) {
      pass->sharding = sharding.kind;
      pass->block = 0;
      if (!sharding.per_document.values().empty()) pass->per_document = sharding.per_document;
    }
    for (SampleId id = 0; id < lengths.size(); ++id) {
      if (trained[id] == 0) plan.deferred.push_back(id);
    }
    const StepLowerBound bound = lower_bound(trained_lengths);
    state_lower_bound(bound.seconds(), bound.exists, plan);
    return plan;
  }

 private:
  /// One replica's micro-batches and how they run.
  struct Replica {
    Schedule schedule;
    PackSharding sharding;
  };

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
    for (std::size_t s = 0; s < cost_.stages(); ++s)
      priced =
          priced && cost_.pack_seconds(s, Pass::forward) > 0 && cost_.pack_seconds(s, Pass::backward) > 0;
    const std::size_t count = std::max<std::size_t>(1, (packs.size() + replicas - 1) / replicas);
    for (Packs& own : dealt) {
      while (priced && own.size() < count) own.close();
    }
    return dealt;
  }

  /// 1F1B with the least recomputation that fits. @throws InvalidInput if nothing fits.
  [[nodiscard]] Replica schedule(const Packs& own, PackSharding sharding, Scheduler& scheduler) {
    Replica out;
    out.schedule.pipelines = 1;
    out.schedule.forward = out.schedule.backward = in_rows(own);
    price(out.schedule.forward, sharding, Pass::forward, out.schedule.forward_times);
    price(out.schedule.backward, sharding, Pass::backward, out.schedule.backward_times);
    scheduler.schedule_priced(out.schedule, recompute_seconds(own, sharding), {.fit = FitPolicy::recompute});
    Tokens most = 0;
    for (std::size_t k = 0; k < own.size(); ++k) most = std::max(most, count_tokens(own[k]));
    require(out.schedule.fits(), "micro-batches of up to ", most, " tokens do not fit into ",
            memory_.capacity_bytes() / 1e9, " GB per device with all layers recomputed; expected ",
            "a shorter context, more context parallelism, more stages or more memory");
    out.sharding = std::move(sharding);
    return out;
  }

  /// Durations of packs whose attention takes what it takes on the slowest context-parallel rank, all else being shared
  /// equally (WLB-LLM, section 3.1). A cost model that can't tell attention from the rest gives its own prices.
  void price(const PackRows& rows, const PackSharding& sharding, Pass pass, PassTimes& out) {
    price_packs(rows, prices_, pass, out);
    if constexpr (SeparableCostModel<C>) {
      const std::size_t stages = cost_.stages();
      for (std::size_t k = 0; k < rows.packs.size(); ++k) {
        const AttentionSeconds& kernel = sharding.seconds[k];
        const double layer = pass == Pass::forward ? kernel.forward : kernel.backward;
        for (std::size_t s = 0; s < stages; ++s) {
          double& seconds = out.seconds[k * stages + s];
          seconds = cost_.pack_seconds(s, pass) + cost_.attention_seconds(s, pass, layer);
          for (const Slice& slice : rows.packs[k])
            seconds += cost_.other_seconds(s, slice.begin, slice.end, pass);
        }
      }
    }
  }

  /// One layer of each stage computed again, [pack * stages + stage]; empty if the model does not price that.
  [[nodiscard]] std::vector<double> recompute_seconds(const Packs& packs,
                                                      const PackSharding& sharding) const {
    std::vector<double> out;
    if constexpr (RecomputingCostModel<C>) {
      for (std::size_t k = 0; k < packs.size(); ++k) {
        for (std::size_t s = 0; s < cost_.stages(); ++s) {
          double& seconds = out.emplace_back(recompute_pack_seconds(cost_, s));
          if constexpr (SeparableCostModel<C>) seconds += sharding.seconds[k].forward;
          for (const Slice& slice : packs[k]) {
            if constexpr (SeparableCostModel<C>) {
              seconds += cost_.recompute_other_seconds(s, slice.begin, slice.end);
            } else {
              seconds += cost_.recompute_seconds(s, slice.begin, slice.end);
            }
          }
        }
      }
    }
    return out;
  }

  /// Goes over to another order of the packs if that shortens the step.
  void reorder(Replica& best, Scheduler& scheduler) {
    const Schedule& given = best.schedule;
    const Packs own = given.forward.packs;
    const PackSharding sharding = best.sharding;
    const std::size_t stages = cost_.stages();
    std::vector<double> durations(own.size(), 0.0);
    for (std::size_t k = 0; k < own.size(); ++k) {
      for (std::size_t s = 0; s < stages; ++s)
        durations[k] +=
            given.forward_times.seconds[k * stages + s] + given.backward_times.seconds[k * stages + s];
    }
    for (const auto& order : detail::pack_orders(durations)) {
      Packs packs;
      PackSharding other;
      for (const std::uint32_t k : order) {
        for (const Slice& slice : own[k]) packs.add(slice);
        packs.close();
        other.kind.push_back(sharding.kind[k]);
        other.seconds.push_back(sharding.seconds[k]);
        other.per_document.repeat_row(1, sharding.per_document[k]);
      }
      Replica candidate = schedule(packs, std::move(other), scheduler);
      if (candidate.schedule.seconds < best.schedule.seconds) best = std::move(candidate);
    }
  }

  /// Of any plan of the samples that are trained; attention at the kernel's best rate, as far as that is known.
  [[nodiscard]] StepLowerBound lower_bound(std::span<const Tokens> lengths) {
    const auto replicas = static_cast<std::size_t>(job_.layout.dp);
    if constexpr (SeparableCostModel<C>) {
      AttentionSeconds least;
      if constexpr (requires { attention().least_seconds_per_twice_pair(); }) {
        least = attention().least_seconds_per_twice_pair();
        least = {least.forward / job_.layout.cp, least.backward / job_.layout.cp};
      }
      return step_lower_bound(lengths, replicas, LeastAttentionCost<C>(cost_, least));
    } else {
      return step_lower_bound(lengths, replicas, prices_);
    }
  }

  Job job_;
  Strategy strategy_;
  C cost_;
  GroupPrices prices_;
  Memory memory_;
  PackSharder<A> sharder_;
  MicroBatchOptions options_;
};

}  // namespace slimpack
