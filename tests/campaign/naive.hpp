#pragma once

#include <string>
#include <vector>

#include "slimpack/cost/memory.hpp"
#include "slimpack/plan/plan.hpp"

namespace campaign {

using namespace slimpack;

/// When a plan ends and what its stages hold at most, computed from the plan's lists alone.
struct NaiveRun {
  bool complete = false;  ///< false: stages wait for each other
  double seconds = 0.0;
  std::vector<std::vector<double>> peak_bytes;  ///< [pipeline][stage]
};

/// Runs each task as soon as all its members and all that it needs are ready, and counts what comes and goes on every
/// stage in its order, by the rules of plan/memory.hpp. Shares nothing with the library's graph and memory curves.
/// @param plan valid in its shapes.
[[nodiscard]] NaiveRun run_naively(const Plan& plan, const TransformerMemory& memory);

/// Where two plans differ; empty if they are the same.
[[nodiscard]] std::string difference(const Plan& a, const Plan& b);

}  // namespace campaign
