#pragma once

#include <algorithm>
#include <span>

#include "slimpack/core/batch.hpp"
#include "slimpack/planners/micro_batches.hpp"
#include "slimpack/stream/sequences.hpp"

namespace slimpack {

struct Plain4dOptions {
  Tokens context = 0;  ///< tokens that a sequence holds at most; 0 = the longest sample
  ShardingPolicy sharding = ShardingPolicy::per_sequence;  ///< the paper's way; others for comparison
};

/// Plain-4D (WLB-LLM, section 6.1): whole documents fill sequences of `context` tokens in their order; replicas get
/// the sequences in turn; per-sequence sharding, 1F1B.
/// @throws InvalidInput if the batch is empty, a sample is not positive or longer than the context, or as
/// `MicroBatchPlanner::plan`. Complexity: that of `MicroBatchPlanner::plan`.
template <CostModel C, MemoryModel M, BoundedAttentionModel A>
[[nodiscard]] Plan plan_plain_4d(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                 const M& memory, const A& attention, const Plain4dOptions& options = {}) {
  validate_batch(lengths);
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  const Tokens context = options.context > 0 ? options.context : longest;
  const Packs sequences = fill_sequences(lengths, context).sequences;
  MicroBatchPlanner planner(job, cost, memory, attention,
                            {options.sharding, ReplicaDealing::in_turn, MicroBatchOrder::as_given});
  return planner.plan("plain-4d", lengths, sequences);
}

}  // namespace slimpack
