#pragma once

#include <string>
#include <vector>

#include "planners.hpp"

namespace slimpack::command {

/// A planner with options of its own.
struct Variant {
  Planner planner;
  JobOptions options;
};

/// A planner's techniques: rows that add one after another, from whole samples to everything, then rows with everything but one.
/// Each row is named after its technique. If `options` give a number of packs, a sharding or queues, all rows keep them; otherwise
/// choosing them is a technique of its own.
/// @throws InvalidInput listing the planners that have techniques.
std::vector<Variant> ablation(const std::string& planner, const JobOptions& options);

}  // namespace slimpack::command
