#pragma once

#include <concepts>
#include <span>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/planners/bytescale_options.hpp"
#include "slimpack/planners/plan_with_models.hpp"

namespace slimpack {

/// `plan_bytescale` with prices and memory of any models. @param prices, memory of a pipeline of the job's layout.
[[nodiscard]] Plan plan_bytescale(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                                  const Memory& memory, const ByteScaleOptions& options = {});

/// ByteScale (Ge et al., arXiv 2502.21231), at its best: hybrid data parallelism. Each sample runs on as many of the
/// job's dp pipelines as it needs, any number; packs are made so that all ranks have equal work (DP balance), or so
/// that all packs take about as long (PP balance). Both are tried with many limits of tokens and of work, and a static
/// mesh of groups of one size as well; the plan with the shortest step that fits counts. docs/hydraulis.md says what
/// differs from theirs.
///
/// As with `plan_dynamic_cp`, a layout with cp > 1 keeps that cp for all groups.
/// @throws InvalidInput if nothing fits into memory, a sample is longer than the context, or the given limit is too
/// small for one.
/// Complexity: some hundreds of times that of `hybrid_rank_packs` and of `Scheduler`.
template <CostModel C, MemoryModel M, class A>
  requires(BoundedAttentionModel<A> || std::same_as<A, NoAttentionModel>)
[[nodiscard]] Plan plan_bytescale(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                  const M& memory, const A& attention, const ByteScaleOptions& options = {}) {
  const auto plan = [&](GroupPrices& prices, const Memory& own) {
    return plan_bytescale(lengths, job, prices, own, options);
  };
  return detail::plan_with_models(lengths, job, cost, memory, attention, plan);
}

/// The same without an attention model: ranks share attention equally, and no tile is wasted.
template <CostModel C, MemoryModel M>
[[nodiscard]] Plan plan_bytescale(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                  const M& memory, const ByteScaleOptions& options = {}) {
  return plan_bytescale(lengths, job, cost, memory, NoAttentionModel{}, options);
}

/// The same with the calibrated cost model, the transformer's memory model and the device's assumed attention table.
[[nodiscard]] Plan plan_bytescale(std::span<const Tokens> lengths, const Job& job,
                                  const ByteScaleOptions& options = {});

}  // namespace slimpack

// Programs that link the library slimpack::planners find these there.
#ifndef SLIMPACK_COMPILED_PLANNERS

#include "slimpack/planners/bytescale_search.hpp"

namespace slimpack {

inline Plan plan_bytescale(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                           const Memory& memory, const ByteScaleOptions& options) {
  return detail::search_bytescale(lengths, job, prices, memory, options);
}

inline Plan plan_bytescale(std::span<const Tokens> lengths, const Job& job, const ByteScaleOptions& options) {
  return plan_bytescale(lengths, job, CalibratedCost(job), TransformerMemory(job), assumed_attention(job),
                        options);
}

}  // namespace slimpack

#endif
