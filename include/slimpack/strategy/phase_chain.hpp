#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/length_classes.hpp"

namespace slimpack::detail {

/// A class of lengths on one strategy.
struct ClassPlan {
  std::size_t strategy = 0;
  double seconds = 0.0;
};

/// The samples that run at the same time, on one strategy.
struct Phase {
  std::size_t begin = 0, end = 0;  ///< places in the order by length
  std::size_t strategy = 0;
};

/// The chain of classes with the least seconds, switches and the last one's synchronisation included. Neighbours in it have
/// different strategies. O(classes * (parts * plans)^2), by dynamic programming over the last class.
/// @param plans [first part * parts + last part] of each class, some good ones.
/// @param switch_seconds(from, to) between two strategies. @param sync_seconds(strategy) at the end of the step.
/// @returns phases in the order in which they run, shortest samples first; none if some samples have no plan.
template <class SwitchSeconds, class SyncSeconds>
[[nodiscard]] std::vector<Phase> best_chain(const LengthClasses& classes,
                                            std::span<const std::vector<ClassPlan>> plans,
                                            std::size_t most_classes, const SwitchSeconds& switch_seconds,
                                            const SyncSeconds& sync_seconds) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  struct State {
    double seconds;
    Phase phase;
    std::ptrdiff_t before;  // number of the state before; -1: none
  };
  const std::size_t n = classes.parts();
  std::vector<State> states;
  std::vector<std::size_t> last, next;  // states of the number of classes so far
  std::ptrdiff_t best = -1;
  double least = infinite;
  const auto extended = [&](Phase phase, double own) {
    State state{infinite, phase, -1};
    for (const std::size_t other : last) {
      const Phase& before = states[other].phase;
      if (before.end != phase.begin || before.strategy == phase.strategy) continue;
      const double seconds = states[other].seconds + switch_seconds(before.strategy, phase.strategy) + own;
      if (seconds >= state.seconds) continue;
      state.seconds = seconds;
      state.before = static_cast<std::ptrdiff_t>(other);
    }
    return state;
  };
  for (std::size_t count = 1; count <= std::min(most_classes, n); ++count) {
    next.clear();
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = a; b < n; ++b) {
        for (const ClassPlan& own : plans[a * n + b]) {
          const Phase phase{classes.begin(a), classes.end(b), own.strategy};
          State state = extended(phase, own.seconds);
          if (count == 1 && a == 0) state.seconds = own.seconds;
          if (state.seconds == infinite || state.seconds >= least) continue;
          next.push_back(states.size());
          states.push_back(state);
          const double all = state.seconds + sync_seconds(own.strategy);
          if (b + 1 < n || all >= least) continue;
          least = all;
          best = static_cast<std::ptrdiff_t>(next.back());
        }
      }
    }
    std::swap(last, next);
  }
  std::vector<Phase> phases;
  for (; best >= 0; best = states[static_cast<std::size_t>(best)].before)
    phases.push_back(states[static_cast<std::size_t>(best)].phase);
  std::reverse(phases.begin(), phases.end());
  return phases;
}

}  // namespace slimpack::detail
