#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/plan/assemble.hpp"
#include "slimpack/planners/plan_with_models.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "slimpack/schedule/lower_bound.hpp"

namespace slimpack {

struct MegatronOptions {
  Tokens context = 0;  ///< tokens that a pack holds at most; 0 = the longest sample
};

namespace detail {

/// A schedule whose packs all of its pipelines run together, as one pipeline of as many context-parallel ranks runs it.
inline Schedule as_one_pipeline(Schedule schedule) {
  schedule.pipelines = 1;
  for (PackRows* const rows : {&schedule.forward, &schedule.backward})
    *rows = in_rows(std::move(rows->packs));
  return schedule;
}

}  // namespace detail

/// `plan_megatron` with prices of any model. @param layers of each stage are those of the layout.
[[nodiscard]] inline Plan plan_megatron(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                                        const Memory& memory, const MegatronOptions& options = {}) {
  validate_batch(lengths, job.layout.dp);
  const auto longest = std::max_element(lengths.begin(), lengths.end());
  const Tokens context = options.context > 0 ? options.context : *longest;
  require(*longest <= context, "sample ", longest - lengths.begin(), " has ", *longest,
          " tokens; expected at most the context of ", context);
  Scheduler scheduler(lengths, prices, memory);
  const auto pipelines = static_cast<std::size_t>(job.layout.dp);
  WholeSamplePlan best =
      plan_whole_samples(lengths, context, pipelines, context_parallel_shares(pipelines, prices), scheduler,
                         {.fit = FitPolicy::uniform});
  require(best.share > 0, "packs of ", context, " tokens do not fit into ", memory.capacity_bytes() / 1e9,
          " GB per device with any context parallelism up to dp = ", job.layout.dp,
          " and all layers recomputed; expected a shorter context, more stages or more memory");
  Job used = job;
  used.layout.dp /= static_cast<std::int32_t>(best.share);
  used.layout.cp *= static_cast<std::int32_t>(best.share);
  std::vector<PlacedSchedule> placed;
  for (Schedule& schedule : best.schedules) {
    auto peaks = scheduler.peak_bytes(schedule);
    peaks.resize(1);
    placed.push_back({.pipelines = {static_cast<PipelineId>(placed.size())},
                      .schedule = detail::as_one_pipeline(std::move(schedule)),
                      .peak_bytes = std::move(peaks)});
  }
  Plan plan = assemble_plan("megatron", lengths, job.model, job.device, layout_strategy(used),
                            std::move(placed), prices.alone().sync_seconds());
  GroupPrices own(prices.of(best.share));
  const StepLowerBound bound = step_lower_bound(lengths, static_cast<std::size_t>(used.layout.dp), own);
  state_lower_bound(bound.seconds(), bound.exists, plan);
  return plan;
}

/// The baseline: what a careful user of Megatron-LM runs. Whole samples, best-fit-decreasing into packs of
/// `context` tokens, dealt evenly to the data-parallel ranks, 1F1B. Context parallelism takes ranks from data
/// parallelism; among the settings that fit into memory, each with the least uniform recomputation that makes them fit,
/// the one with the shortest step counts.
/// @throws InvalidInput if a sample is longer than the context or no setting fits into memory.
/// Complexity: O(n log n + divisors(dp) * packs * stages).
template <CostModel C, MemoryModel M, class A>
  requires(BoundedAttentionModel<A> || std::same_as<A, NoAttentionModel>)
[[nodiscard]] Plan plan_megatron(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                 const M& memory, const A& attention, const MegatronOptions& options = {}) {
  const auto plan = [&](GroupPrices& prices, const Memory& own) {
    return plan_megatron(lengths, job, prices, own, options);
  };
  return detail::plan_with_models(lengths, job, cost, memory, attention, plan);
}

/// The same without an attention model: ranks share attention equally, and no tile is wasted.
template <CostModel C, MemoryModel M>
[[nodiscard]] Plan plan_megatron(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                 const M& memory, const MegatronOptions& options = {}) {
  return plan_megatron(lengths, job, cost, memory, NoAttentionModel{}, options);
}

/// The same with the calibrated cost model, the transformer's memory model and the device's assumed attention table.
[[nodiscard]] inline Plan plan_megatron(std::span<const Tokens> lengths, const Job& job,
                                        const MegatronOptions& options = {}) {
  const CalibratedCost cost(job);
  return plan_megatron(lengths, job, cost, TransformerMemory(job), assumed_attention(job), options);
}

}  // namespace slimpack
