#pragma once

#include <span>
#include <string>
#include <vector>

#include "batches.hpp"
#include "documents.hpp"
#include "rank_cost.hpp"
#include "rank_memory.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack::command {

/// A planner by name. One that has neither `plan` nor `start` is the best of all others.
struct Planner {
  std::string name;
  /// Plans a batch by itself, on the options' layout; null where batches are planned in order.
  Plan (*plan)(std::span<const Tokens> lengths, const JobOptions& options);
  /// For ranks of a back end, each of them a whole stage; null where batches need others.
  Plan (*plan_on_cpu)(std::span<const Tokens> lengths, const JobOptions& options, const RankCost& cost,
                      const RankMemory& memory);
  /// Begins to plan batches in order: one run, or several of which the one counts that takes least time. Null
  /// where each is planned by itself.
  std::vector<PlanRun> (*start)(const JobOptions& options, const Lengths& lengths,
                                const RunScope& scope) = nullptr;
  /// The same for ranks of a back end; documents that wait are drained at the end.
  PlanRun (*start_on_cpu)(const JobOptions& options, const Lengths& lengths, const RunScope& scope,
                          const RankCost& cost, const RankMemory& memory) = nullptr;
  bool defers = false;  ///< leaves documents to later iterations; drained, it trains them as well
  /// The layout that `plan` takes in place of another one; null: the same.
  Layout (*plans_on)(const Layout& layout) = nullptr;
  /// Whether it can plan on a layout at all; null: on any.
  bool (*takes)(const Layout& layout) = nullptr;
  /// It chooses its pipelines itself: the layout says only how many devices there are.
  bool chooses_pipelines = false;
  /// The options with the models of time and memory that `plan` takes in place of the others'; null: the same.
  JobOptions (*with_own_models)(const JobOptions& options) = nullptr;

  [[nodiscard]] bool is_best_of_all() const { return plan == nullptr && start == nullptr; }
};

/// What the profile says of the job's stages.
RankCost profiled_cost(const JobOptions& options);

/// What the stages hold that a job's profile was measured on. The optimiser is sharded.
RankMemory profiled_memory(const JobOptions& options);

/// All planners that exist.
std::span<const Planner> planners();

/// @throws InvalidInput listing the names that exist.
const Planner& find_planner(const std::string& name);

/// Plans batch number `iteration` of the lengths, whose samples are `tokens`.
/// @throws InvalidInput naming the line of the sample that can't be planned.
Plan plan_batch(const Planner& planner, std::span<const Tokens> tokens, const JobOptions& options,
                const Lengths& lengths, std::size_t iteration);

}  // namespace slimpack::command
