#pragma once

#include <concepts>
#include <span>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/planners/dynamic_cp_options.hpp"
#include "slimpack/planners/plan_with_models.hpp"

namespace slimpack {

/// `plan_dynamic_cp` with prices and memory of any models. @param prices, memory of a pipeline of the job's layout.
[[nodiscard]] Plan plan_dynamic_cp(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                                   const Memory& memory, const DynamicCpOptions& options = {});

/// The strong baseline: what a careful user of Megatron Core's Dynamic Context Parallelism runs. Each micro-batch of
/// whole samples runs on a group of its own size, a power of two or all, of the job's dp pipelines; rows of groups keep
/// them all busy. Both schedulers that Megatron Core has, and the next version of one, are tried with many limits of
/// tokens per rank, deciding by squared tokens, as theirs do, and by prices. Of the plans that fit into memory with the
/// least recomputation of each stage, the one with the shortest step counts; the balanced scheduler's includes what
/// ranks wait at its barriers. docs/dynamic-cp.md has the sources, and what differs.
///
/// Theirs takes ranks for groups from dp and cp alike. A layout of dp pipelines with cp = 1 says so; with a larger cp,
/// no group has fewer ranks than that (their `min_dynamic_context_parallel_size`).
/// @throws InvalidInput if nothing fits into memory, or the given limit is too small for a sample.
/// Complexity: some dozens of times that of `packed_rank_rows`, and of `Scheduler`.
template <CostModel C, MemoryModel M, class A>
  requires(BoundedAttentionModel<A> || std::same_as<A, NoAttentionModel>)
[[nodiscard]] Plan plan_dynamic_cp(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                   const M& memory, const A& attention,
                                   const DynamicCpOptions& options = {}) {
  const auto plan = [&](GroupPrices& prices, const Memory& own) {
    return plan_dynamic_cp(lengths, job, prices, own, options);
  };
  return detail::plan_with_models(lengths, job, cost, memory, attention, plan);
}

/// The same without an attention model: ranks share attention equally, and no tile is wasted.
template <CostModel C, MemoryModel M>
[[nodiscard]] Plan plan_dynamic_cp(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                   const M& memory, const DynamicCpOptions& options = {}) {
  return plan_dynamic_cp(lengths, job, cost, memory, NoAttentionModel{}, options);
}

/// The same with the calibrated cost model, the transformer's memory model and the device's assumed attention table.
[[nodiscard]] Plan plan_dynamic_cp(std::span<const Tokens> lengths, const Job& job,
                                   const DynamicCpOptions& options = {});

}  // namespace slimpack

// Programs that link the library slimpack::planners find these there.
#ifndef SLIMPACK_COMPILED_PLANNERS

#include "slimpack/planners/dynamic_cp_search.hpp"

namespace slimpack {

inline Plan plan_dynamic_cp(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                            const Memory& memory, const DynamicCpOptions& options) {
  return detail::search_dynamic_cp(lengths, job, prices, memory, options);
}

inline Plan plan_dynamic_cp(std::span<const Tokens> lengths, const Job& job,
                            const DynamicCpOptions& options) {
  return plan_dynamic_cp(lengths, job, CalibratedCost(job), TransformerMemory(job), assumed_attention(job),
                         options);
}

}  // namespace slimpack

#endif
