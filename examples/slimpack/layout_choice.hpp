#pragma once

#include <string>
#include <vector>

#include "series.hpp"
#include "slimpack/strategy/layout_rows.hpp"

namespace slimpack::command {

/// The same options with a layout.
JobOptions on_layout(const JobOptions& options, const Layout& layout);

/// What came of a planner where layouts, or planners, were to be chosen.
struct Chosen {
  std::string planner;  ///< that made the plans
  Planned planned;
  Layout layout;
  std::vector<LayoutRow> rows;  ///< of the layouts that this planner chose from; none if the layout was given
};

/// Which plans count where the best of several planners is wanted.
enum class Comparison {
  drained,     ///< all steps until every document is trained
  first_plan,  ///< the first plan alone; planners that leave documents for later have none
};

/// Plans of one batch that `plan_best` makes at most.
std::size_t plans_of(const Planner& planner, const JobOptions& options);

/// Plans all batches: on the given layout, or on the one with the fewest seconds per trained token over all batches. For
/// `auto`, all planners do so, and the best of them counts; its first plan notes why.
/// @throws InvalidInput if nothing can be planned, with the reason of the layout that came closest.
Chosen plan_best(const Planner& planner, const JobOptions& options, const Series& series,
                 Comparison comparison);

}  // namespace slimpack::command
