#pragma once

#include <concepts>
#include <span>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/planners/dynapipe_options.hpp"
#include "slimpack/planners/plan_with_models.hpp"

namespace slimpack {

/// `plan_dynapipe` with prices and memory of any models. @param prices, memory of a pipeline of the job's layout.
[[nodiscard]] Plan plan_dynapipe(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                                 const Memory& memory, const DynaPipeOptions& options = {});

/// DynaPipe (Jiang et al., EuroSys 2024), at its best: samples sorted by length are split into micro-batches of whole
/// samples by `ordered_parts`, for its objective (stages - 1) * longest + sum / replicas and some weights around it,
/// and for the tokens that memory holds with different recomputation; micro-batches are dealt to replicas by
/// Karmarkar-Karp; each replica runs them in the fastest of all orders of clusters of similar ones, in 1F1B or its
/// eager form (`PassOrder::eager`), with leads and recomputation that fit into memory. Context parallelism takes ranks
/// from data parallelism where that is faster. docs/hydraulis.md says what differs from their code.
/// @throws InvalidInput if nothing fits into memory, or an option is impossible.
/// Complexity: some dozens of times that of `ordered_parts` and of `Scheduler`, for each group size.
template <CostModel C, MemoryModel M, class A>
  requires(BoundedAttentionModel<A> || std::same_as<A, NoAttentionModel>)
[[nodiscard]] Plan plan_dynapipe(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                 const M& memory, const A& attention, const DynaPipeOptions& options = {}) {
  const auto plan = [&](GroupPrices& prices, const Memory& own) {
    return plan_dynapipe(lengths, job, prices, own, options);
  };
  return detail::plan_with_models(lengths, job, cost, memory, attention, plan);
}

/// The same without an attention model: ranks share attention equally, and no tile is wasted.
template <CostModel C, MemoryModel M>
[[nodiscard]] Plan plan_dynapipe(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                 const M& memory, const DynaPipeOptions& options = {}) {
  return plan_dynapipe(lengths, job, cost, memory, NoAttentionModel{}, options);
}

/// The same with the calibrated cost model, the transformer's memory model and the device's assumed attention table.
[[nodiscard]] Plan plan_dynapipe(std::span<const Tokens> lengths, const Job& job,
                                 const DynaPipeOptions& options = {});

}  // namespace slimpack

// Programs that link the library slimpack::planners find these there.
#ifndef SLIMPACK_COMPILED_PLANNERS

#include "slimpack/planners/dynapipe_search.hpp"

namespace slimpack {

inline Plan plan_dynapipe(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                          const Memory& memory, const DynaPipeOptions& options) {
  return detail::search_dynapipe(lengths, job, prices, memory, options);
}

inline Plan plan_dynapipe(std::span<const Tokens> lengths, const Job& job, const DynaPipeOptions& options) {
  return plan_dynapipe(lengths, job, CalibratedCost(job), TransformerMemory(job), assumed_attention(job),
                       options);
}

}  // namespace slimpack

#endif
