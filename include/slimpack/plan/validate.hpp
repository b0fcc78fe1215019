#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/validate_rules.hpp"
#include "slimpack/plan/validate_shapes.hpp"
#include "slimpack/plan/validate_values.hpp"
#include "slimpack/plan/violations.hpp"

namespace slimpack {

/// What a plan breaks of the plan format's rules (docs/plan-format.md), each with its rule, place and values;
/// empty for a valid plan. It trusts nothing in the plan and knows nothing of how it was made.
/// @param most how many to name at most. Shapes and ids are checked first, then values, then the rules; what
/// breaks one of these hides the later ones.
/// Complexity: O(tasks + slices), plus sorting the slices of each sample and one longest path.
[[nodiscard]] inline std::vector<std::string> violations(const Plan& plan, std::size_t most = 20) {
  detail::Violations found(most);
  detail::check_shapes(plan, found);
  if (found.none()) detail::check_values(plan, found);
  if (found.none()) detail::check_rules(plan, found);
  return found.take();
}

/// @throws InvalidInput with the first violations. Complexity: that of `violations`.
inline void validate(const Plan& plan) {
  const auto found = violations(plan, 3);
  if (found.empty()) return;
  std::string text = "invalid plan: " + found.front();
  for (std::size_t i = 1; i < found.size(); ++i) text += "; " + found[i];
  throw InvalidInput(text);
}

}  // namespace slimpack
