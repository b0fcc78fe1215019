#pragma once

#include <concepts>
#include <span>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/planners/megatron_options.hpp"
#include "slimpack/planners/plan_with_models.hpp"

namespace slimpack {

/// `plan_megatron` with prices and memory of any models. @param prices, memory of a pipeline of the job's layout.
[[nodiscard]] Plan plan_megatron(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                                 const Memory& memory, const MegatronOptions& options = {});

/// The baseline: what a careful user of Megatron-LM runs. Whole samples, best-fit-decreasing into packs, dealt evenly
/// to the data-parallel ranks, 1F1B. Settings are the length of packs, from the longest sample to the context
/// (`useful_pack_lengths`), and context parallelism, which takes ranks from data parallelism; options fix either. In
/// each setting, every stage recomputes as few layers as fit into memory; of the settings that fit, the one with the
/// shortest step is the plan.
/// @throws InvalidInput if a sample is longer than the context, if the length of packs that is asked for is not between
/// these, or if no setting fits into memory.
/// Complexity: for each length of packs, O(n log n + divisors(dp) * packs * stages).
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
[[nodiscard]] Plan plan_megatron(std::span<const Tokens> lengths, const Job& job,
                                 const MegatronOptions& options = {});

}  // namespace slimpack

// Programs that link the library slimpack::planners find these there.
#ifndef SLIMPACK_COMPILED_PLANNERS

#include "slimpack/planners/megatron_search.hpp"

namespace slimpack {

inline Plan plan_megatron(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                          const Memory& memory, const MegatronOptions& options) {
  return detail::search_megatron(lengths, job, prices, memory, options);
}

inline Plan plan_megatron(std::span<const Tokens> lengths, const Job& job, const MegatronOptions& options) {
  return plan_megatron(lengths, job, CalibratedCost(job), TransformerMemory(job), assumed_attention(job),
                       options);
}

}  // namespace slimpack

#endif
