#include "slimpack/strategy/phase_chain.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <vector>

using namespace slimpack;

TEST_CASE("the best chain of phases takes least of all chains") {
  constexpr double never = std::numeric_limits<double>::infinity();
  int several = 0, limited = 0, none = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto draw = [&](double most) { return std::uniform_real_distribution<double>(0.0, most)(random); };
    std::vector<Tokens> lengths(1 + random() % 12);
    for (Tokens& length : lengths) length = Tokens{1} << (random() % 5);
    const detail::LengthClasses classes(lengths, 5);
    const std::size_t n = classes.parts(), strategies = 1 + random() % 4, most = 1 + random() % 4;
    const double dear = random() % 2 == 0 ? 0.3 : 3.0;
    std::vector<double> sync(strategies), change(strategies * strategies);
    for (double& seconds : sync) seconds = draw(1.0);
    for (double& seconds : change) seconds = draw(dear);
    std::vector<std::vector<detail::ClassPlan>> plans(n * n);
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = a; b < n; ++b) {
        for (std::size_t s = 0; s < strategies; ++s) {
          if (random() % 3 > 0) plans[a * n + b].push_back({s, draw(4.0) * static_cast<double>(b - a + 1)});
        }
      }
    }
    double least = never, unlimited = never;
    const std::function<void(std::size_t, std::size_t, std::size_t, double)> chain =
        [&](std::size_t a, std::size_t before, std::size_t count, double seconds) {
          if (a == n) {
            unlimited = std::min(unlimited, seconds + sync[before]);
            if (count <= most) least = std::min(least, seconds + sync[before]);
            return;
          }
          for (std::size_t b = a; b < n; ++b) {
            for (const detail::ClassPlan& own : plans[a * n + b]) {
              if (a > 0 && own.strategy == before) continue;
              const double moved = a == 0 ? 0.0 : change[before * strategies + own.strategy];
              chain(b + 1, own.strategy, count + 1, seconds + moved + own.seconds);
            }
          }
        };
    chain(0, 0, 0, 0.0);
    const auto between = [&](std::size_t from, std::size_t to) { return change[from * strategies + to]; };
    const std::vector<detail::Phase> phases =
        detail::best_chain(classes, plans, most, between, [&](std::size_t s) { return sync[s]; });
    if (least == never) {
      CHECK(phases.empty());
      ++none;
      continue;
    }
    REQUIRE(!phases.empty());
    CHECK(phases.size() <= most);
    double seconds = sync[phases.back().strategy];
    std::size_t a = 0;
    for (std::size_t i = 0; i < phases.size(); ++i) {
      const detail::Phase& phase = phases[i];
      REQUIRE(a < n);
      CHECK(phase.begin == classes.begin(a));
      std::size_t b = a;
      while (b < n && classes.end(b) != phase.end) ++b;
      REQUIRE(b < n);
      double own = never;
      for (const detail::ClassPlan& plan : plans[a * n + b]) {
        if (plan.strategy == phase.strategy) own = plan.seconds;
      }
      seconds += own;
      if (i > 0) {
        CHECK(phases[i - 1].strategy != phase.strategy);
        seconds += between(phases[i - 1].strategy, phase.strategy);
      }
      a = b + 1;
    }
    CHECK(a == n);
    CHECK(seconds == Approx(least).epsilon(1e-12));
    several += phases.size() > 1 ? 1 : 0;
    limited += unlimited < least ? 1 : 0;
  }
  CHECK(several > 80);
  CHECK(limited > 20);
  CHECK(none > 20);
}
