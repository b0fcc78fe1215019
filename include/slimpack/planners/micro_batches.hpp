#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "slimpack/cost/priced_models.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/planners/micro_batch_options.hpp"

namespace slimpack {

/// Plans iterations of whole documents in micro-batches on a 4D layout (tp, cp, pp, dp), as WLB-LLM and its
/// baselines run them (sections 2.1 and 6.1): each replica runs its micro-batches in 1F1B order; those are
/// sharded over the context-parallel ranks, of which the slowest one sets the pace; each stage recomputes as few layers
/// as fit its own micro-batches into memory.
class MicroBatchPlanner {
 public:
  /// @param models of a pipeline of the job's layout.
  MicroBatchPlanner(Job job, PricedModels models, const MicroBatchOptions& options = {})
      : job_(std::move(job)), models_(std::move(models)), options_(options) {}

  /// The same with models of any type.
  /// @throws InvalidInput if the job is impossible, has no room for tokens, or does not match the models.
  template <CostModel C, MemoryModel M, BoundedAttentionModel A>
  MicroBatchPlanner(const Job& job, const C& cost, const M& memory, const A& attention,
                    const MicroBatchOptions& options = {})
      : MicroBatchPlanner(job, price_models(job, cost, memory, attention), options) {}

  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] const Memory& memory() const { return models_.memory; }

  /// Seconds of a whole document (`document_seconds`): the work that micro-batches are balanced by.
  [[nodiscard]] double document_seconds(Tokens length) const {
    return slimpack::document_seconds(models_.prices.alone(), length);
  }

  /// @param lengths of all samples. @param micro_batches slices of whole samples, none of them twice; the
  /// others are deferred. Empty ones are left out, those with fewer tokens than ranks join others.
  /// @throws InvalidInput if all tokens are fewer than the context-parallel ranks, a time is no duration, or a
  /// replica's micro-batches do not fit into memory with all layers recomputed.
  /// Complexity: O(slices * stages), sharding each micro-batch, and the local search that balances replicas.
  [[nodiscard]] Plan plan(std::string_view planner, std::span<const Tokens> lengths,
                          const Packs& micro_batches);

 private:
  Job job_;
  PricedModels models_;
  MicroBatchOptions options_;
};

}  // namespace slimpack

// Programs that link the library slimpack::planners find this there.
#ifndef SLIMPACK_COMPILED_PLANNERS

#include "slimpack/planners/micro_batch_search.hpp"

namespace slimpack {

inline Plan MicroBatchPlanner::plan(std::string_view planner, std::span<const Tokens> lengths,
                                    const Packs& micro_batches) {
  return detail::plan_micro_batches(planner, lengths, micro_batches, job_, models_, options_);
}

}  // namespace slimpack

#endif
