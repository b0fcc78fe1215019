#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/model/memory.hpp"
#include "options.hpp"
#include "rank_cost.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack::command {

/// A planner by name.
struct Planner {
  std::string name;
  Plan (*plan)(std::span<const Tokens> lengths, const JobOptions& options);
  /// For ranks of the CPU back end, each of them a whole stage.
  Plan (*plan_on_cpu)(std::span<const Tokens> lengths, const JobOptions& options, const RankCost& cost,
                      const kernels::CpuMemory& memory);
};

/// What the stages hold that a job's profile was measured on. The optimiser is sharded.
kernels::CpuMemory profiled_memory(const JobOptions& options);

/// All planners that exist.
std::span<const Planner> planners();

/// @throws InvalidInput listing the names that exist.
const Planner& find_planner(const std::string& name);

/// Plans batch number `iteration` of the lengths, whose samples are `tokens`.
/// @throws InvalidInput naming the line of the sample that can't be planned.
Plan plan_batch(const Planner& planner, std::span<const Tokens> tokens, const JobOptions& options,
                const Lengths& lengths, std::size_t iteration);

}  // namespace slimpack::command
