#pragma once

#include <functional>
#include <string>
#include <vector>

#include "settings.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/plan/plan.hpp"

namespace campaign {

/// Another planner on a setting's batch, job and prices.
struct RivalPlanner {
  std::string name;
  std::function<Plan(const TransformerMemory&)> plan;
};

/// The planners on a setting's batch, job and prices, whatever type its cost model has.
struct Planner {
  std::function<Plan(const SlimPackOptions&, const TransformerMemory&)> slimpack;
  std::function<Plan(const TransformerMemory&)> megatron;
  std::function<Plan(const TransformerMemory&)> dynamic_cp;
  std::vector<RivalPlanner> rivals;       ///< the others that plan any pipelines of one kind
  std::function<void(Plan&)> price_anew;  ///< by the setting's model
};

/// @param setting outlives the planner. @throws InvalidInput if its models are impossible.
[[nodiscard]] Planner make_planner(const Setting& setting);

}  // namespace campaign
