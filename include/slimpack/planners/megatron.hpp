#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/partition/packing.hpp"
#include "slimpack/planners/assemble.hpp"
#include "slimpack/planners/one_f_one_b.hpp"
#include "slimpack/schedule/lower_bound.hpp"

namespace slimpack {

struct MegatronOptions {
  Tokens context = 0;  ///< tokens that a pack holds at most; 0 = the longest sample
};

namespace detail {

/// One setting of context parallelism that a user of the baseline could choose.
template <CostModel C, MemoryModel M>
class MegatronSetting {
 public:
  /// @param share context-parallel ranks per pack, beside those of the layout.
  MegatronSetting(std::span<const Tokens> lengths, const Job& job, const C& cost, const M& memory,
                  std::size_t share)
      : lengths_(lengths),
        layers_(split_layers(job.model.layers, job.layout.pp)),
        cost_(cost),
        memory_(memory),
        share_(share) {}

  /// Layers to recompute on every stage, uniformly as far as a stage has them, so that a pipeline full of
  /// packs of `context` tokens fits; -1 if nothing helps.
  [[nodiscard]] std::int32_t recompute_for(Tokens context, std::size_t packs) const {
    const std::int32_t most = RecomputingCostModel<C> ? layers_.front() : 0;
    const double tokens = static_cast<double>(context) / static_cast<double>(share_);
    for (std::int32_t r = 0; r <= most; ++r) {
      if (full_pipeline_fits(memory_, layers_, r, tokens, packs)) return r;
    }
    return -1;
  }

  /// Packs dealt in turn to `pipelines` pipelines, each in 1F1B order.
  [[nodiscard]] std::vector<GroupSchedule> schedule(std::span<const Packs> packs,
                                                    std::int32_t recompute) const {
    const std::vector<std::int32_t> again = uniform_recompute(layers_, recompute);
    const C cost = priced(again);
    GroupMakespan makespan;
    std::vector<GroupSchedule> schedules;
    for (const Packs& own : packs) {
      GroupSchedule one = order_one_f_one_b(own, lengths_, static_cast<double>(share_), layers_.size());
      one.recompute = again;
      PipelineTimes& times = one.times.members[0];
      append_pack_times(own, cost, Pass::forward, times.forward.seconds, times.forward.transfer);
      append_pack_times(own, cost, Pass::backward, times.backward.seconds, times.backward.transfer);
      one.seconds = makespan(one.times, layers_.size());
      schedules.push_back(std::move(one));
    }
    return schedules;
  }

 private:
  [[nodiscard]] C priced(std::span<const std::int32_t> recompute) const {
    C cost = cost_;
    if constexpr (RecomputingCostModel<C>) cost = cost.with_recompute(recompute);
    if constexpr (MergeableCostModel<C>) {
      if (share_ > 1) cost = cost.with_context_parallel(static_cast<std::int32_t>(share_));
    }
    return cost;
  }

  std::span<const Tokens> lengths_;
  std::vector<std::int32_t> layers_;
  const C& cost_;
  const M& memory_;
  std::size_t share_;
};

/// Numbers of ranks that context parallelism may take from data parallelism.
template <CostModel C>
[[nodiscard]] std::vector<std::int32_t> megatron_shares(const Job& job, const C& cost) {
  std::vector<std::int32_t> shares;
  if constexpr (MergeableCostModel<C>) {
    for (std::int32_t share = 1; share <= job.layout.dp; ++share) {
      if (job.layout.dp % share == 0 && cost.supports_context_parallel(share)) shares.push_back(share);
    }
  } else {
    shares.push_back(1);
  }
  return shares;
}

/// Deals packs of whole samples in turn to `pipelines` pipelines.
inline std::vector<Packs> deal_packs(std::span<const Tokens> lengths, const Packing& packing,
                                     std::size_t pipelines) {
  std::vector<std::vector<SampleId>> bins(packing.load.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) bins[packing.bin[i]].push_back(static_cast<SampleId>(i));
  std::vector<Packs> dealt(pipelines);
  for (std::size_t b = 0; b < bins.size(); ++b) {
    Packs& packs = dealt[b % pipelines];
    for (const SampleId id : bins[b]) packs.add({id, 0, lengths[id]});
    packs.close();
  }
  return dealt;
}

}  // namespace detail

/// The baseline: what a careful user of Megatron-LM runs. Whole samples, best-fit-decreasing into packs of
/// `context` tokens, dealt evenly to the data-parallel ranks, 1F1B. Context parallelism takes ranks from data
/// parallelism; among the settings whose full packs fit into memory, each with the least uniform
/// recomputation that makes them fit, the one with the shortest step counts.
/// @throws InvalidInput if a sample is longer than the context or no setting fits into memory.
/// Complexity: O(n log n + divisors(dp) * packs * stages).
template <CostModel C, MemoryModel M>
[[nodiscard]] Plan plan_megatron(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                 const M& memory, const MegatronOptions& options = {}) {
  validate(job);
  validate_batch(lengths, job.layout.dp);
  require_room(memory, cost.stages());
  require_durations(cost, lengths);
  const auto longest = std::max_element(lengths.begin(), lengths.end());
  const Tokens context = options.context > 0 ? options.context : *longest;
  require(*longest <= context, "sample ", longest - lengths.begin(), " has ", *longest,
          " tokens; expected at most the context of ", context);
  const auto require_fit = [&](bool fits) {
    require(fits, "packs of ", context, " tokens do not fit into ", memory.capacity_bytes() / 1e9,
            " GB per device with any context parallelism up to dp = ", job.layout.dp,
            " and all layers recomputed; expected a shorter context, more stages or more memory");
  };
  // One full pack has to fit before any is packed: packing takes time and memory in proportion to the
  // context.
  auto shares = detail::megatron_shares(job, cost);
  std::erase_if(shares, [&](std::int32_t share) {
    return detail::MegatronSetting<C, M>(lengths, job, cost, memory, static_cast<std::size_t>(share))
               .recompute_for(context, 1) < 0;
  });
  require_fit(!shares.empty());
  const Packing packing = best_fit_decreasing(lengths, context);

  double best_seconds = std::numeric_limits<double>::infinity();
  std::vector<GroupSchedule> best;
  std::int32_t best_share = 0;
  for (const std::int32_t share : shares) {
    const auto pipelines = static_cast<std::size_t>(job.layout.dp / share);
    const std::vector<Packs> packs = detail::deal_packs(lengths, packing, pipelines);
    const detail::MegatronSetting<C, M> setting(lengths, job, cost, memory, static_cast<std::size_t>(share));
    const std::int32_t recompute = setting.recompute_for(context, packs.front().size());
    if (recompute < 0) continue;
    auto schedules = setting.schedule(packs, recompute);
    double seconds = 0.0;
    for (const GroupSchedule& one : schedules) seconds = std::max(seconds, one.seconds);
    if (seconds < best_seconds) {
      best_seconds = seconds;
      best = std::move(schedules);
      best_share = share;
    }
  }
  require_fit(best_share > 0);

  Job used = job;
  used.layout.dp /= best_share;
  used.layout.cp *= best_share;
  std::vector<SampleGroup> groups(best.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].first = static_cast<PipelineId>(g);
    groups[g].local.resize(1);
  }
  Plan plan = assemble_plan("megatron", lengths, used, groups, std::move(best), memory, sync_seconds(cost));
  const auto pipelines = static_cast<std::size_t>(used.layout.dp);
  if constexpr (MergeableCostModel<C>) {
    state_lower_bound(step_lower_bound(lengths, pipelines, cost.with_context_parallel(best_share)).seconds(),
                      plan);
  } else {
    state_lower_bound(step_lower_bound(lengths, pipelines, cost).seconds(), plan);
  }
  return plan;
}

/// The same with the calibrated cost model and the transformer's memory model.
[[nodiscard]] inline Plan plan_megatron(std::span<const Tokens> lengths, const Job& job,
                                        const MegatronOptions& options = {}) {
  return plan_megatron(lengths, job, CalibratedCost(job), TransformerMemory(job), options);
}

}  // namespace slimpack
