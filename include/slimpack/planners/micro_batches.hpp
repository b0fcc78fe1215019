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
#include "slimpack/cost/memory_prices.hpp"
#include "slimpack/plan/assemble.hpp"
#include "slimpack/planners/deal_micro_batches.hpp"
#include "slimpack/schedule/lower_bound.hpp"
#include "slimpack/schedule/scheduler.hpp"

namespace slimpack {

struct MicroBatchOptions {
  ShardingPolicy sharding = ShardingPolicy::mixed;
  ReplicaDealing dealing = ReplicaDealing::balanced;
  MicroBatchOrder order = MicroBatchOrder::fastest;
};

namespace detail {

/// The packs of one pipeline in another order, each shared by ranks as in the given one; not priced yet.
[[nodiscard]] inline Schedule in_order(const Schedule& given, std::span<const std::uint32_t> order) {
  const PackSharing& sharing = given.forward_times.sharing;
  Packs packs;
  PackSharing other;
  other.block = sharing.block;
  for (const std::uint32_t k : order) {
    for (const Slice& slice : given.forward.packs[k]) packs.add(slice);
    packs.close();
    other.sharding.push_back(sharing.sharding[k]);
    other.exchange.push_back(sharing.exchange[k]);
    other.attention.push_back(sharing.attention[k]);
    other.per_document.repeat_row(1, sharing.per_document[k]);
  }
  Schedule out;
  out.pipelines = 1;
  out.forward = out.backward = in_rows(std::move(packs));
  out.forward_times.sharing = out.backward_times.sharing = std::move(other);
  return out;
}

}  // namespace detail

/// Plans iterations of whole documents in micro-batches on a 4D layout (tp, cp, pp, dp), as WLB-LLM and its
/// baselines run them (sections 2.1 and 6.1): each replica runs its micro-batches in 1F1B order; those are
/// sharded over the context-parallel ranks, of which the slowest one sets the pace; each stage recomputes as few layers
/// as fit its own micro-batches into memory. Keeps its memory between calls.
template <CostModel C, BoundedAttentionModel A>
class MicroBatchPlanner {
 public:
  /// @throws InvalidInput if the job is impossible, has no room for tokens, or does not match the models.
  template <MemoryModel M>
  MicroBatchPlanner(Job job, C cost, const M& memory, A attention, MicroBatchOptions options = {})
      : job_(std::move(job)),
        strategy_(layout_strategy(job_)),
        cost_(std::move(cost)),
        attention_(std::move(attention)),
        prices_(Prices(cost_, attention_, job_.layout.cp)),
        memory_((check_models(cost_, memory, strategy_), memory), layers(), RecomputingCostModel<C>),
        options_(options) {}

  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] const C& cost() const { return cost_; }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  [[nodiscard]] const A& attention() const { return attention_; }
  [[nodiscard]] std::span<const std::int32_t> layers() const { return strategy_.pipelines.front().layers; }

  /// Seconds of a whole document over all stages, in both passes, its attention shared equally by the
  /// context-parallel ranks (Wa + Wl of WLB-LLM's Eq. 2).
  [[nodiscard]] double document_seconds(Tokens length) const {
    const AttentionSeconds kernel = attention_.chunk_seconds(0, length);
    const Prices& prices = prices_.alone();
    double sum = 0.0;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const double layer = (pass == Pass::forward ? kernel.forward : kernel.backward) / job_.layout.cp;
      sum += prices.pipeline_seconds(0, length, pass) - prices.least_attention_seconds(0, length, pass) +
             prices.pipeline_attention_seconds(layer, pass);
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
    for (const Packs& own : replicas) {
      Schedule schedule = scheduled(own, scheduler);
      if (options_.order == MicroBatchOrder::fastest) reorder(schedule, scheduler);
      auto peaks = scheduler.peak_bytes(schedule);
      placed.push_back({{static_cast<PipelineId>(placed.size())}, std::move(schedule), std::move(peaks)});
    }
    Plan plan = assemble_plan(planner, lengths, job_.model, job_.device, strategy_, std::move(placed),
                              sync_seconds(cost_));
    for (SampleId id = 0; id < lengths.size(); ++id) {
      if (trained[id] == 0) plan.deferred.push_back(id);
    }
    const StepLowerBound bound =
        step_lower_bound(trained_lengths, static_cast<std::size_t>(job_.layout.dp), prices_);
    state_lower_bound(bound.seconds(), bound.exists, plan);
    return plan;
  }

 private:
  /// Deals packs to replicas. If an empty pack has a price, all replicas get the same number, with empty ones where needed;
  /// otherwise none is added, because a plan has no tasks that take no time.
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

  /// 1F1B with the least recomputation that fits, of one replica's micro-batches. @throws InvalidInput if nothing fits.
  [[nodiscard]] Schedule scheduled(const Packs& own, Scheduler& scheduler) {
    Schedule out;
    out.pipelines = 1;
    out.forward = out.backward = in_rows(own);
    scheduler.price(out, options_.sharding);
    scheduler.schedule_priced(out, {.fit = FitPolicy::recompute});
    Tokens most = 0;
    for (std::size_t k = 0; k < own.size(); ++k) most = std::max(most, count_tokens(own[k]));
    require(out.fits(), "micro-batches of up to ", most, " tokens do not fit into ",
            memory_.capacity_bytes() / 1e9, " GB per device with all layers recomputed; expected ",
            "a shorter context, more context parallelism, more stages or more memory");
    return out;
  }

  /// Changes the order of the packs if that shortens the step.
  void reorder(Schedule& best, Scheduler& scheduler) {
    const Schedule given = best;
    const std::size_t stages = cost_.stages();
    std::vector<double> durations(given.forward.packs.size(), 0.0);
    for (std::size_t k = 0; k < durations.size(); ++k) {
      for (std::size_t s = 0; s < stages; ++s)
        durations[k] +=
            given.forward_times.seconds[k * stages + s] + given.backward_times.seconds[k * stages + s];
    }
    for (const auto& order : detail::pack_orders(durations)) {
      Schedule candidate = detail::in_order(given, order);
      scheduler.price_as_shared(candidate);
      scheduler.schedule_priced(candidate, {.fit = FitPolicy::recompute});
      if (candidate.seconds < best.seconds) best = std::move(candidate);
    }
  }

  Job job_;
  Strategy strategy_;
  C cost_;
  A attention_;
  GroupPrices prices_;
  Memory memory_;
  MicroBatchOptions options_;
};

}  // namespace slimpack
