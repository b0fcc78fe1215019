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

/// InfiniPipe (elastic pipeline parallelism): chunks of equal time, short samples packed, long ones cut; the number of slices,
/// the groups of sequences and what each chunk recomputes chosen together by simulated time. Everything it leaves out is a candidate as
/// well: packs of whole samples, one group, the same recomputation for all chunks.
[[nodiscard]] inline ChunkPlanOptions infinipipe_options() { return {}; }

/// Seq1F1B: chunks of equal tokens in 1F1B order, each stage recomputing as few layers as fit, the same for all chunks. This is the
/// variant for samples of unequal lengths that InfiniPipe compares with (section 5.1), with the best number of slices.
[[nodiscard]] inline ChunkPlanOptions seq1f1b_options() {
  ChunkPlanOptions options;
  options.chunking = Chunking::even;
  options.whole_samples = false;
  options.schedule.recompute = ChunkRecompute::per_stage;
  return options;
}

/// TeraPipe: chunks of equal time, all forward passes before the backward passes.
[[nodiscard]] inline ChunkPlanOptions terapipe_options() {
  ChunkPlanOptions options;
  options.whole_samples = false;
  options.schedule.order = PassOrder::gpipe;
  options.schedule.recompute = ChunkRecompute::per_stage;
  return options;
}

/// ChunkFlow: chunks of one size in 1F1B order; the last chunks of a sample are kept, the others run forward twice. Chunk size and
/// number of kept chunks are searched. Unlike there, the inputs of layers that run twice are kept.
[[nodiscard]] inline ChunkPlanOptions chunkflow_options() {
  ChunkPlanOptions options;
  options.chunking = Chunking::even;
  options.whole_samples = false;
  options.schedule.recompute = ChunkRecompute::oldest;
  return options;
}

/// `plan_chunks` with prices and memory of any models. @param prices, memory of a pipeline of the job's layout.
[[nodiscard]] Plan plan_chunks(std::string_view planner, std::span<const Tokens> lengths, const Job& job,
                               GroupPrices& prices, const Memory& memory, const ChunkPlanOptions& options);

/// Plans pipelines of chunks: samples are dealt to pipelines by work, cut and packed into chunks, and scheduled with what memory
/// makes them recompute. The best number of slices counts.
/// @param planner name that the plan gets. @param options of one of the systems above, or your own.
/// @throws InvalidInput if the batch, the job or an option is impossible, or nothing fits into memory.
/// Complexity: some dozens of times that of `ChunkScheduler` for the pipeline with most work; about once for each other.
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
