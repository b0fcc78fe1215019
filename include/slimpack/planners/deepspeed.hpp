#pragma once

#include <concepts>
#include <span>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/planners/plan_with_models.hpp"
#include "slimpack/planners/sequence_parallel_options.hpp"
#include "slimpack/planners/ulysses.hpp"

namespace slimpack {

/// `plan_deepspeed` with prices and memory of any models. @param prices, memory of a pipeline of the job's layout.
[[nodiscard]] Plan plan_deepspeed(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                                  const Memory& memory, const DeepSpeedOptions& options = {});

/// The baseline of InfiniPipe (section 5.1): DeepSpeed-Ulysses with ZeRO-3. Whole samples, best-fit-decreasing into
/// packs, on dp groups of the layout's cp ranks, which share each pack and exchange keys by all-to-all. All ranks shard
/// parameters, so that all wait for each other at each micro-batch; the step and a note have that wait. Packs that run
/// at the same time have about the same attention. Of all lengths of packs, from the longest sample to the context
/// (`useful_pack_lengths`), the one with the shortest step counts, with the least recomputation that fits.
/// @param cost, memory as with `ulysses_options`, or any models whose packs pay for ZeRO-3.
/// @throws InvalidInput if the layout has tp or pp, if a sample is longer than the context, if the length of packs that
/// is asked for is not between these, or if no length fits into memory.
/// Complexity: for each length of packs, O(n log n + packs).
template <CostModel C, MemoryModel M, class A>
  requires(BoundedAttentionModel<A> || std::same_as<A, NoAttentionModel>)
[[nodiscard]] Plan plan_deepspeed(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                  const M& memory, const A& attention, const DeepSpeedOptions& options = {}) {
  require_sequence_parallel("deepspeed", job.layout);  // before memory is found too small for it
  const auto plan = [&](GroupPrices& prices, const Memory& own) {
    return plan_deepspeed(lengths, job, prices, own, options);
  };
  return detail::plan_with_models(lengths, job, cost, memory, attention, plan);
}

/// The same without an attention model: ranks share attention equally, and no tile is wasted.
template <CostModel C, MemoryModel M>
[[nodiscard]] Plan plan_deepspeed(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                  const M& memory, const DeepSpeedOptions& options = {}) {
  return plan_deepspeed(lengths, job, cost, memory, NoAttentionModel{}, options);
}

/// The same with the calibrated cost model and the transformer's memory model, both with `ulysses_options`, and the device's
/// assumed attention table.
[[nodiscard]] Plan plan_deepspeed(std::span<const Tokens> lengths, const Job& job,
                                  const DeepSpeedOptions& options = {});

}  // namespace slimpack

// Programs that link the library slimpack::planners find these there.
#ifndef SLIMPACK_COMPILED_PLANNERS

#include "slimpack/planners/deepspeed_search.hpp"

namespace slimpack {

inline Plan plan_deepspeed(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                           const Memory& memory, const DeepSpeedOptions& options) {
  return detail::search_deepspeed(lengths, job, prices, memory, options);
}

inline Plan plan_deepspeed(std::span<const Tokens> lengths, const Job& job, const DeepSpeedOptions& options) {
  const UlyssesOptions own = ulysses_options();
  return plan_deepspeed(lengths, job, CalibratedCost(job, own.cost), TransformerMemory(job, own.memory),
                        assumed_attention(job), options);
}

}  // namespace slimpack

#endif
