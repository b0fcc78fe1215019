#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

#include "judge.hpp"

namespace campaign {

/// A setting, and what came of it.
struct Judged {
  std::string name, reproduction;
  Result result;
};

/// Prints how often each check was made and failed, its worst cases, and figures over all settings.
/// @param worst how many cases of each check to list at most.
/// @returns whether all checks hold.
bool report(std::ostream& out, const std::vector<Judged>& judged, const Checks& checks, std::size_t worst);

/// Prints one line a setting with its step, its bound, the baseline's step and the time that planning took.
void write_table(std::ostream& out, const std::vector<Judged>& judged);

/// Two steps of one setting.
struct Pair {
  std::string name, reproduction;
  double ours = 0.0, theirs = 0.0;
};

/// Prints by how much steps are shorter than others: ratio of the means, geometric mean, quantiles, worst cases.
void report_ratios(std::ostream& out, std::vector<Pair> pairs, std::size_t worst);

}  // namespace campaign
