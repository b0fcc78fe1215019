#pragma once

#include <span>
#include <string>
#include <vector>

#include "options.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack::command {

/// A planner by name.
struct Planner {
  std::string name;
  Plan (*plan)(std::span<const Tokens> lengths, const JobOptions& options);
};

/// All planners that exist.
std::span<const Planner> planners();

/// @throws InvalidInput listing the names that exist.
const Planner& find_planner(const std::string& name);

}  // namespace slimpack::command
