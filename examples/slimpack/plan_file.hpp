#pragma once

#include <string>

#include "slimpack/plan/plan.hpp"

namespace slimpack::command {

/// Reads a plan file, or standard input for "-". Its rules are not checked.
/// @throws InvalidInput naming the file, and what is wrong with it.
Plan read_plan_file(const std::string& path);

}  // namespace slimpack::command
