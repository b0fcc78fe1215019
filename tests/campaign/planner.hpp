#pragma once

#include <functional>

#include "settings.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/plan/plan.hpp"

namespace campaign {

/// The planners on a setting's batch, job and prices, whatever type its cost model has.
struct Planner {
  std::function<Plan(const SlimPackOptions&, const TransformerMemory&)> slimpack;
  std::function<Plan(const TransformerMemory&)> megatron;
  std::function<Plan(const TransformerMemory&)> dynamic_cp;
  std::function<void(Plan&)> price_anew;  ///< by the setting's model
};

/// @param setting outlives the planner. @throws InvalidInput if its models are impossible.
[[nodiscard]] Planner make_planner(const Setting& setting);

}  // namespace campaign
