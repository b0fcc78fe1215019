#include "slimpack/strategy/strategy_order.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "bounds_case.hpp"
#include "slimpack/strategy/candidate_strategies.hpp"
#include "tests/effort.hpp"

using namespace slimpack;
using slimpack::testing::BoundsCase;

TEST_CASE("strategies come in the order of their bounds, and of their estimates as if all were made") {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  std::size_t reordered = 0, left_out = 0;
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(10, 2); ++seed) {
    BoundsCase c(seed);
    c.strategies = candidate_strategies(LengthHistogram(c.lengths), c.model, c.device, c.make,
                                        {.schemes = {.devices = 16}}, true);
    const StrategySet set = c.set();
    StrategyBounds bounds(c.lengths, set);
    for (const PlanFreedom freedom : {PlanFreedom::whole, PlanFreedom::recompute}) {
      INFO("seed " << seed << ", freedom " << static_cast<int>(freedom));
      std::vector<std::pair<double, std::size_t>> by_bound, by_estimate;
      for (std::size_t i = 0; i < set.size(); ++i) {
        if (!bounds.holds(i, freedom)) continue;
        by_bound.emplace_back(bounds(i, freedom), i);
        by_estimate.emplace_back(std::max(by_bound.back().first, bounds.estimate(i, freedom)), i);
      }
      std::sort(by_bound.begin(), by_bound.end());
      std::sort(by_estimate.begin(), by_estimate.end());
      const auto ranked = strategies_by_bound(set, bounds, freedom, std::nullopt, 0.0);
      REQUIRE(ranked.size() == by_bound.size());
      REQUIRE(ranked.size() > 3);
      for (std::size_t n = 0; n < ranked.size(); ++n) {
        CHECK(ranked[n].strategy == by_bound[n].second);
        CHECK(ranked[n].bound == by_bound[n].first);
        reordered += by_bound[n].second == by_estimate[n].second ? 0 : 1;
      }
      for (const double most : {infinite, by_bound[by_bound.size() / 2].first}) {
        StrategiesByEstimate order(ranked, bounds, freedom);
        for (const auto& [seconds, strategy] : by_estimate) {
          if (bounds(strategy, freedom) >= most) {
            ++left_out;
            continue;
          }
          const std::optional<RankedStrategy> next = order.next(most);
          REQUIRE(next);
          CHECK(next->strategy == strategy);
          CHECK(next->seconds == seconds);
        }
        CHECK_FALSE(order.next(most));
      }
      // The strategy of the step before, whose time counts for next to nothing.
      const std::size_t last = by_estimate.back().second;
      const auto kept = strategies_by_bound(set, bounds, freedom, set.strategy(last), 1e6);
      CHECK(kept.front().strategy == last);
      CHECK(kept.front().bound == Approx(bounds(last, freedom) / (1.0 + 1e6)));
      const std::optional<RankedStrategy> first = StrategiesByEstimate(kept, bounds, freedom).next(infinite);
      REQUIRE(first);
      CHECK(first->strategy == last);
      CHECK(first->seconds == 0.0);
    }
  }
  CHECK(reordered > 0);
  CHECK(left_out > 0);
}
