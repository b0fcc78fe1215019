#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/planners/documents.hpp"
#include "slimpack/stream/fixed_length_packing.hpp"
#include "slimpack/stream/sequences.hpp"

namespace slimpack {

struct Fixed4dOptions {
  Tokens context = 0;             ///< tokens that a sequence holds at most; 0 = the longest sample
  std::size_t window = 1;         ///< number of global batches that are packed together
  std::size_t micro_batches = 0;  ///< per iteration; 0: as many as the window's batches need in their order
};

/// The plans of successive iterations, and how far packing over a window moved tokens.
struct Fixed4dPlans {
  std::vector<Plan> plans;                                 ///< one for each global batch
  ShardingPolicy sharding = ShardingPolicy::per_sequence;  ///< of all of them
  double mean_token_delay =
      0.0;  ///< iterations by which tokens come later than in their order; 0 for those that come earlier
};

/// Fixed-4D (WLB-LLM, sections 3.2 and 6.1) with the planner's sharding for all: sequences of `context` tokens packed
/// greedily by falling length over windows of global batches, 1F1B.
/// @param lengths of all documents. @param batches where each global batch begins, and the end. Plans have the
/// samples of their own iteration alone; `document_ids` has their places in `lengths`.
/// @param planner runs micro-batches as they are given.
/// @throws InvalidInput if a batch is empty, a document not positive or longer than the context, or as
/// `MicroBatchPlanner::plan`. Complexity: that of `pack_fixed_length` and `MicroBatchPlanner::plan`.
[[nodiscard]] inline Fixed4dPlans plan_fixed_4d_with(std::span<const Tokens> lengths,
                                                     std::span<const std::size_t> batches,
                                                     MicroBatchPlanner& planner,
                                                     const Fixed4dOptions& options = {}) {
  validate_batch(lengths);
  require(options.window > 0, "window is 0; expected at least one global batch");
  require(batches.size() >= 2 && batches.front() == 0 && batches.back() == lengths.size() &&
              std::adjacent_find(batches.begin(), batches.end(), std::greater_equal<>()) == batches.end(),
          "the global batches do not divide the ", lengths.size(),
          " documents; expected where each of them begins, and the end");
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  FixedLengthOptions packing{.context = options.context > 0 ? options.context : longest,
                             .method = FixedLengthMethod::greedy};
  std::vector<Document> documents;
  for (std::size_t i = 0; i < lengths.size(); ++i) documents.push_back({i, lengths[i]});
  const auto work = [&](Tokens length) { return planner.document_seconds(length); };
  Fixed4dPlans out;
  double tokens = 0.0;
  for (std::size_t b = 0; b + 1 < batches.size(); b += options.window) {
    const auto own = batches.subspan(b, std::min(options.window, batches.size() - 1 - b) + 1);
    packing.micro_batches = options.micro_batches;
    std::vector<std::size_t> starts;
    for (const std::size_t start : own) starts.push_back(start - own.front());
    const auto count = own.back() - own.front();
    const Packs sequences =
        batch_sequences(lengths.subspan(own.front(), count), starts, packing.context,
                        static_cast<std::size_t>(planner.job().layout.dp), packing.micro_batches);
    const FixedLengthWindow window =
        pack_fixed_length(std::span(documents).subspan(own.front(), count), sequences, 0, sequences.size(),
                          static_cast<std::int64_t>(b), packing, work);
    for (const PackedIteration& iteration : window.iterations)
      out.plans.push_back(plan_documents("fixed-4d", iteration, {}, planner));
    const auto held = static_cast<double>(count_tokens(sequences.slices()));
    tokens += held;
    out.mean_token_delay += held * window.mean_token_delay;
  }
  out.mean_token_delay /= tokens;
  return out;
}

/// The same with models of any type and one sharding.
template <CostModel C, MemoryModel M, BoundedAttentionModel A>
[[nodiscard]] Fixed4dPlans plan_fixed_4d_sharded(std::span<const Tokens> lengths,
                                                 std::span<const std::size_t> batches, const Job& job,
                                                 const C& cost, const M& memory, const A& attention,
                                                 ShardingPolicy sharding,
                                                 const Fixed4dOptions& options = {}) {
  MicroBatchPlanner planner(job, cost, memory, attention,
                            {.sharding = sharding, .order = MicroBatchOrder::as_given});
  Fixed4dPlans out = plan_fixed_4d_with(lengths, batches, planner, options);
  out.sharding = sharding;
  return out;
}

/// Fixed-4D with the sharding, per sequence or per document throughout, that makes all iterations together
/// shorter; per sequence if they are equal. Parameters and errors are those of `plan_fixed_4d_sharded`.
template <CostModel C, MemoryModel M, BoundedAttentionModel A>
[[nodiscard]] Fixed4dPlans plan_fixed_4d(std::span<const Tokens> lengths,
                                         std::span<const std::size_t> batches, const Job& job, const C& cost,
                                         const M& memory, const A& attention,
                                         const Fixed4dOptions& options = {}) {
  const auto seconds = [](const Fixed4dPlans& plans) {
    double sum = 0.0;
    for (const Plan& plan : plans.plans) sum += plan.step.seconds;
    return sum;
  };
  const auto with = [&](ShardingPolicy sharding) {
    return plan_fixed_4d_sharded(lengths, batches, job, cost, memory, attention, sharding, options);
  };
  Fixed4dPlans per_sequence = with(ShardingPolicy::per_sequence);
  if (job.layout.cp == 1) return per_sequence;
  Fixed4dPlans per_document = with(ShardingPolicy::per_document);
  return seconds(per_document) < seconds(per_sequence) ? std::move(per_document) : std::move(per_sequence);
}

}  // namespace slimpack
