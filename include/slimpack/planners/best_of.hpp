#pragma once

#include <utility>

namespace slimpack::detail {

/// Replaces a plan by another one that takes less time. Plans have `seconds`, which are infinite where there is none.
template <class Plan>
void improve(Plan&& plan, Plan& best) {
  if (plan.seconds < best.seconds) best = std::forward<Plan>(plan);
}

/// The best plan that some candidates make, the first one of equals.
/// @param candidates functions from seconds to a plan. A candidate may give up what takes that long or longer, because the best
/// plan so far takes no longer than that.
template <class Plan, class... Candidates>
[[nodiscard]] Plan best_of(Candidates&&... candidates) {
  Plan best;
  (improve(candidates(best.seconds), best), ...);
  return best;
}

}  // namespace slimpack::detail
