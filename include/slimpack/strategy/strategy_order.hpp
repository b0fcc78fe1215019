#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <optional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/model/strategy.hpp"
#include "slimpack/strategy/strategy_bounds.hpp"
#include "slimpack/strategy/strategy_set.hpp"

namespace slimpack {

/// A strategy that a batch may be planned on. Seconds are of a step, divided by the margin.
struct RankedStrategy {
  std::size_t strategy = 0;  ///< its place in the set
  double margin = 1.0;       ///< by which another strategy has to be better
  double bound = 0.0;        ///< no plan takes less
  double seconds = 0.0;      ///< what it is ranked by: its bound, or its estimate

  friend auto operator<=>(const RankedStrategy& a, const RankedStrategy& b) {
    return std::pair(a.seconds, a.strategy) <=> std::pair(b.seconds, b.strategy);
  }
};

/// The strategies that hold the longest sample, the lowest bound first. @param current the strategy of the step before, which
/// stays unless another one is faster by more than `hysteresis` of its time. O(strategies) bounds.
[[nodiscard]] inline std::vector<RankedStrategy> strategies_by_bound(const StrategySet& set,
                                                                     StrategyBounds& bounds,
                                                                     PlanFreedom freedom,
                                                                     const std::optional<Strategy>& current,
                                                                     double hysteresis) {
  std::vector<RankedStrategy> ranked;
  ranked.reserve(set.size());
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (!bounds.holds(i, freedom)) continue;
    const double margin = current && set.strategy(i) == *current ? 1.0 + hysteresis : 1.0;
    const double bound = bounds(i, freedom) / margin;
    ranked.push_back({i, margin, bound, bound});
  }
  std::sort(ranked.begin(), ranked.end());
  return ranked;
}

/// Strategies in the order of their estimates, which are made only where a bound is below those of others.
class StrategiesByEstimate {
 public:
  /// @param ranked by bounds of this freedom (`strategies_by_bound`), without slices. @param bounds have to outlive this.
  StrategiesByEstimate(std::span<const RankedStrategy> ranked, StrategyBounds& bounds, PlanFreedom freedom)
      : bounds_(bounds), freedom_(freedom) {
    for (const RankedStrategy& each : ranked) waiting_.push({each, false});
  }

  /// The next strategy whose bound is below `most` seconds; none if there is no more. One with a margin is not estimated: its
  /// seconds are 0.
  [[nodiscard]] std::optional<RankedStrategy> next(double most) {
    while (!waiting_.empty()) {
      auto [own, estimated] = waiting_.top();
      waiting_.pop();
      if (own.bound >= most) continue;
      if (estimated) return own;
      own.seconds =
          own.margin > 1.0 ? 0.0 : std::max(own.bound, bounds_.estimate(own.strategy, freedom_) / own.margin);
      waiting_.push({own, true});
    }
    return std::nullopt;
  }

 private:
  using Waiting = std::pair<RankedStrategy, bool>;  // and whether it is ranked by its estimate
  struct Later {
    [[nodiscard]] bool operator()(const Waiting& a, const Waiting& b) const { return a.first > b.first; }
  };

  StrategyBounds& bounds_;
  PlanFreedom freedom_;
  std::priority_queue<Waiting, std::vector<Waiting>, Later> waiting_;
};

}  // namespace slimpack
