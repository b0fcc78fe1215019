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

/// `plan_flexsp` with prices and memory of any models. @param prices, memory of a pipeline of the job's layout.
[[nodiscard]] Plan plan_flexsp(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                               const Memory& memory, const FlexSpOptions& options = {});

/// FlexSP (Wang et al., ASPLOS 2025), the strongest baseline of InfiniPipe (section 5.1): for each micro-batch, the
/// job's dp pipelines of one device are split into sequence-parallel groups of different sizes, powers of two or all,
/// each of which runs some samples as one pack. Samples of similar lengths are in one micro-batch. All ranks shard
/// parameters (ZeRO-3) and wait for each other at each micro-batch; the step and a note have that wait. Numbers of
/// micro-batches, limits of tokens per rank and splits into groups are searched (`flexible_groups`, `lightest_parts`),
/// and so is all that `plan_deepspeed` does with any cp, so that no plan of it is shorter. The same layers are
/// recomputed everywhere, as few as fit. docs/sequence-parallel.md says what differs from theirs.
/// @param cost, memory as with `ulysses_options`, or any models whose packs pay for ZeRO-3.
/// @throws InvalidInput if the layout has tp or pp, if a sample is longer than the context, or if nothing fits into
/// memory.
/// Complexity: some hundreds of times that of `flexible_groups`.
template <CostModel C, MemoryModel M, class A>
  requires(BoundedAttentionModel<A> || std::same_as<A, NoAttentionModel>)
[[nodiscard]] Plan plan_flexsp(std::span<const Tokens> lengths, const Job& job, const C& cost,
                               const M& memory, const A& attention, const FlexSpOptions& options = {}) {
  require_sequence_parallel("flexsp", job.layout);  // before memory is found too small for it
  const auto plan = [&](GroupPrices& prices, const Memory& own) {
    return plan_flexsp(lengths, job, prices, own, options);
  };
  return detail::plan_with_models(lengths, job, cost, memory, attention, plan);
}

/// The same without an attention model: ranks share attention equally, and no tile is wasted.
template <CostModel C, MemoryModel M>
[[nodiscard]] Plan plan_flexsp(std::span<const Tokens> lengths, const Job& job, const C& cost,
                               const M& memory, const FlexSpOptions& options = {}) {
  return plan_flexsp(lengths, job, cost, memory, NoAttentionModel{}, options);
}

/// The same with the calibrated cost model and the transformer's memory model, both with `ulysses_options`, and the device's
/// assumed attention table.
[[nodiscard]] Plan plan_flexsp(std::span<const Tokens> lengths, const Job& job,
                               const FlexSpOptions& options = {});

}  // namespace slimpack

// Programs that link the library slimpack::planners find these there.
#ifndef SLIMPACK_COMPILED_PLANNERS

#include "slimpack/planners/flexsp_search.hpp"

namespace slimpack {

inline Plan plan_flexsp(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                        const Memory& memory, const FlexSpOptions& options) {
  return detail::search_flexsp(lengths, job, prices, memory, options);
}

inline Plan plan_flexsp(std::span<const Tokens> lengths, const Job& job, const FlexSpOptions& options) {
  const UlyssesOptions own = ulysses_options();
  return plan_flexsp(lengths, job, CalibratedCost(job, own.cost), TransformerMemory(job, own.memory),
                     assumed_attention(job), options);
}

}  // namespace slimpack

#endif
