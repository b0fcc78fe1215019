#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "batches.hpp"
#include "rank_cost.hpp"
#include "rank_memory.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/stream/document.hpp"

namespace slimpack::command {

/// Batch number `iteration` as documents. An id is the document's place among the file's lengths, from 0, plus
/// 2^40 for each piece of a split one before it.
std::vector<Document> documents(const JobOptions& options, const Lengths& lengths, std::size_t iteration);

/// What a run can do besides whose documents wait for later iterations: its iterations have numbers, from 0, and its state
/// outlives the process.
struct KeptRun {
  std::function<std::int64_t()> next;  ///< number of the next iteration
  /// Plans an iteration: the next one, or the last one again. No batch: of what waits.
  /// @throws InvalidInput for another number, for other documents under the last one's, or if none waits.
  std::function<Plan(std::int64_t iteration, const std::vector<Document>& batch)> plan;
  /// The state as bytes. @param result fingerprint of what the last iteration's plan was written as.
  std::function<std::string(std::uint64_t result)> save;
};

/// "FILE, line N: " for a message that begins with a document that stands there, else nothing.
std::string document_line(std::string_view message, const Lengths& lengths);

/// Successive batches planned in order by a planner that looks beyond one of them.
struct PlanRun {
  /// Takes the next batch. Returns the plans that are ready with it, in order.
  std::function<std::vector<Plan>(const std::vector<Document>&)> push;
  /// The plans of batches that wait for more, and, where it was asked for, of documents that wait.
  std::function<std::vector<Plan>()> finish;
  /// Mean iterations by which tokens were late.
  std::function<double()> token_delay;
  std::optional<KeptRun> kept = std::nullopt;  ///< none for runs that end with the process
};

/// What `planning` returns. @throws InvalidInput as it does, with the line of the document that it names.
template <class Planning>
auto with_document_line(const Lengths& lengths, const Planning& planning) {
  try {
    return planning();
  } catch (const InvalidInput& error) {
    throw InvalidInput(document_line(error.what(), lengths) + error.what());
  }
}

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

/// The same, and wlb, for batches in order.
PlanRun start_fixed_4d_on_cpu(const JobOptions& options, const Lengths& lengths, const RunScope& scope,
                              const RankCost& cost, const RankMemory& memory);
PlanRun start_wlb_on_cpu(const JobOptions& options, const Lengths& lengths, const RunScope& scope,
                         const RankCost& cost, const RankMemory& memory);

}  // namespace slimpack::command
