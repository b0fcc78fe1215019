#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

#include "report.hpp"
#include "settings.hpp"

namespace campaign {

/// Writes the plan of a setting as a plan file, or nothing if the planner refuses. @throws if it can't be written.
void write_plan(const Setting& setting, const std::string& directory, std::size_t index);

/// What came of a setting's plan and the one in a directory.
struct Compared {
  Pair pair;
  bool ours = false, theirs = false;  ///< whether there is a plan
  bool fits = true;                   ///< theirs, by today's model of memory
  double planning_seconds = 0.0;
};

/// Plans a setting, and prices the packs of the plan in the directory by today's model of the same setting.
[[nodiscard]] Compared compare_with_file(const Setting& setting, const std::string& directory,
                                         std::size_t index);

}  // namespace campaign
