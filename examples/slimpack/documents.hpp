#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "batches.hpp"
#include "rank_cost.hpp"
#include "rank_memory.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/stream/document.hpp"

namespace slimpack::command {

/// Batch number `iteration` as documents. An id is the document's place among the file's lengths, from 0, plus
/// 2^40 for each piece of a split one before it.
std::vector<Document> documents(const JobOptions& options, const Lengths& lengths, std::size_t iteration);

/// Successive batches planned in order by a planner that looks beyond one of them.
struct PlanRun {
  /// Takes the next batch. Returns the plans that are ready with it, in order.
  std::function<std::vector<Plan>(const std::vector<Document>&)> push;
  /// The plans of batches that wait for more, and, where it was asked for, of documents that wait.
  std::function<std::vector<Plan>()> finish;
  /// Mean iterations by which tokens were late.
  std::function<double()> token_delay;
  /// What the run remembers, as bytes to go on from; null for runs that end with the process.
  std::function<std::string()> save = nullptr;
  /// One iteration of what waits, where the run remembers documents. @throws InvalidInput if none waits.
  std::function<Plan()> drain = nullptr;
};

/// Gives a run batch number `iteration`. @throws InvalidInput naming the line of the document that can't be planned.
std::vector<Plan> push_batch(const PlanRun& run, const JobOptions& options, const Lengths& lengths,
                             std::size_t iteration);

/// Which batches a run will see; its defaults follow from them.
struct RunScope {
  std::size_t iterations = 1;
  std::string_view state = {};  ///< a saved state that the run will go on from; empty: none
  bool keeps_state = false;     ///< its state will be saved
};

/// wlb. Options that were not given are those of the saved state, or follow from the lengths.
/// @throws InvalidInput if the state is none, or options contradict it.
std::vector<PlanRun> start_wlb(const JobOptions& options, const Lengths& lengths, const RunScope& scope);

/// fixed-4d, once with each sharding that is open; the one that takes less time in all counts.
std::vector<PlanRun> start_fixed_4d(const JobOptions& options, const Lengths& lengths, const RunScope& scope);

/// plain-4d.
Plan plan_plain_4d_batch(std::span<const Tokens> lengths, const JobOptions& options);

/// On ranks of a back end.
Plan plan_plain_4d_on_cpu(std::span<const Tokens> lengths, const JobOptions& options, const RankCost& cost,
                          const RankMemory& memory);
Plan plan_fixed_4d_on_cpu(std::span<const Tokens> lengths, const JobOptions& options, const RankCost& cost,
                          const RankMemory& memory);

}  // namespace slimpack::command
