#pragma once

#include <concepts>
#include <span>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/planners/plan_with_models.hpp"
#include "slimpack/planners/slimpack_options.hpp"

namespace slimpack {

/// `plan_slimpack` with prices and memory of any models. @param prices, memory of a pipeline of the job's layout.
[[nodiscard]] Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                                 const Memory& memory, const SlimPackOptions& options = {});

/// SlimPack (sections 4 and 5.1): samples over pipelines, outliers merged over several (Phase 1); forward and
/// backward MicroPacks of equal cost, each pass cut its own way, for every candidate number of packs (Phase
/// 2); PackFlow's order under the memory limit. The candidate with the shortest simulated step wins.
/// What an option restricts is among the candidates without it, so that more freedom never makes a plan longer.
/// @param lengths tokens of every sample.
/// @param cost, memory, attention models of the job's stages; any types that satisfy the concepts.
/// @throws InvalidInput if the batch or the job is impossible, or nothing fits into memory.
/// Complexity: O(candidates * (samples + packs * stages)) and O(n log n) to sort.
template <CostModel C, MemoryModel M, class A>
  requires(BoundedAttentionModel<A> || std::same_as<A, NoAttentionModel>)
[[nodiscard]] Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                 const M& memory, const A& attention, const SlimPackOptions& options = {}) {
  const auto plan = [&](GroupPrices& prices, const Memory& own) {
    return plan_slimpack(lengths, job, prices, own, options);
  };
  return detail::plan_with_models(lengths, job, cost, memory, attention, plan);
}

/// The same without an attention model: ranks share attention equally, and no tile is wasted.
template <CostModel C, MemoryModel M>
[[nodiscard]] Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                 const M& memory, const SlimPackOptions& options = {}) {
  return plan_slimpack(lengths, job, cost, memory, NoAttentionModel{}, options);
}

/// The same with the calibrated cost model, the transformer's memory model and the device's assumed attention table.
[[nodiscard]] Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job,
                                 const SlimPackOptions& options = {});

}  // namespace slimpack

// Programs that link the library slimpack::planners find these there.
#ifndef SLIMPACK_COMPILED_PLANNERS

#include "slimpack/planners/slimpack_search.hpp"

namespace slimpack {

inline Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                          const Memory& memory, const SlimPackOptions& options) {
  return detail::search_slimpack(lengths, job, prices, memory, options);
}

inline Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, const SlimPackOptions& options) {
  return plan_slimpack(lengths, job, CalibratedCost(job), TransformerMemory(job), assumed_attention(job),
                       options);
}

}  // namespace slimpack

#endif
