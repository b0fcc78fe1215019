#pragma once

#include <concepts>
#include <span>
#include <string_view>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/planners/chunk_options.hpp"
#include "slimpack/planners/plan_with_models.hpp"

namespace slimpack {

/// `plan_chunks` with prices and memory of any models. @param prices, memory of a pipeline of the job's layout.
[[nodiscard]] Plan plan_chunks(std::string_view planner, std::span<const Tokens> lengths, const Job& job,
                               GroupPrices& prices, const Memory& memory, const ChunkPlanOptions& options);

/// Plans pipelines of chunks: samples are dealt to pipelines by work, cut and packed into chunks, and scheduled with
/// what memory makes them recompute. The best number of slices counts.
/// @param planner name that the plan gets. @param options of one of the systems above, or your own.
/// @throws InvalidInput if the batch, the job or an option is impossible, or nothing fits into memory.
/// Complexity: some dozens of times that of `ChunkScheduler` for the pipeline with most work, and about that of one for
/// every other pipeline.
template <CostModel C, MemoryModel M, class A>
  requires(BoundedAttentionModel<A> || std::same_as<A, NoAttentionModel>)
[[nodiscard]] Plan plan_chunks(std::string_view planner, std::span<const Tokens> lengths, const Job& job,
                               const C& cost, const M& memory, const A& attention,
                               const ChunkPlanOptions& options) {
  const auto plan = [&](GroupPrices& prices, const Memory& own) {
    return plan_chunks(planner, lengths, job, prices, own, options);
  };
  return detail::plan_with_models(lengths, job, cost, memory, attention, plan);
}

/// The same with the calibrated cost model, the transformer's memory model and the device's assumed attention table.
[[nodiscard]] Plan plan_chunks(std::string_view planner, std::span<const Tokens> lengths, const Job& job,
                               const ChunkPlanOptions& options);

}  // namespace slimpack

// Programs that link the library slimpack::planners find these there.
#ifndef SLIMPACK_COMPILED_PLANNERS

#include "slimpack/planners/chunk_search.hpp"

namespace slimpack {

inline Plan plan_chunks(std::string_view planner, std::span<const Tokens> lengths, const Job& job,
                        GroupPrices& prices, const Memory& memory, const ChunkPlanOptions& options) {
  return detail::search_chunks(planner, lengths, job, prices, memory, options);
}

inline Plan plan_chunks(std::string_view planner, std::span<const Tokens> lengths, const Job& job,
                        const ChunkPlanOptions& options) {
  return plan_chunks(planner, lengths, job, CalibratedCost(job), TransformerMemory(job),
                     assumed_attention(job), options);
}

}  // namespace slimpack

#endif
