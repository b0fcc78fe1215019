#include "slimpack/strategy/strategy_bounds.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "bounds_case.hpp"

using namespace slimpack;
using slimpack::testing::BoundsCase;

TEST_CASE("times of samples, classes and the longest sample are those of the models") {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    const BoundsCase c(seed);
    const StrategySet set = c.set();
    SampleTimes times(c.lengths, set);
    CHECK(times.longest() == *std::max_element(c.lengths.begin(), c.lengths.end()));
    for (std::size_t i = 0; i < set.size(); ++i) {
      std::vector<double> all;
      for (const std::size_t k : set.kinds(i)) {
        std::vector<double> work;
        const std::vector<double> latency = set.pipelines()[k].latencies(c.lengths, work);
        all.insert(all.end(), latency.begin(), latency.end());
        const KindTimes& own = times(k);
        CHECK(own.work == work);
        CHECK(own.latency == latency);
        CHECK(std::accumulate(own.class_work.begin(), own.class_work.end(), 0.0) ==
              Approx(std::accumulate(work.begin(), work.end(), 0.0)));
        for (std::size_t n = 0; n < times.classes().size(); ++n) {
          double sum = 0.0;
          for (const SampleId id : times.classes().of(n)) sum += latency[id];
          CHECK(own.class_latency[n] * times.classes().count()[n] == Approx(sum));
        }
        double chain = 0.0;
        const Prices& prices = set.pipelines()[k].priced->prices.alone();
        for (const Pass pass : {Pass::forward, Pass::backward})
          for (std::size_t s = 0; s < prices.stages(); ++s)
            chain += prices.slice_seconds(s, 0, times.longest(), pass);
        CHECK(own.longest_chain == Approx(chain).epsilon(1e-9));
      }
      CHECK(times.latencies(i) == all);
    }
  }
}

TEST_CASE(
    "no division of whole samples among pipelines takes less than divided ones, and equal pipelines just "
    "that") {
  int divided_further = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    const BoundsCase c(seed);
    const StrategySet set = c.set();
    StrategyBounds bounds(c.lengths, set);
    std::mt19937 random(seed);
    for (std::size_t i = 0; i < set.size(); ++i) {
      for (const PlanFreedom freedom : {PlanFreedom::whole, PlanFreedom::recompute, PlanFreedom::slices}) {
        if (!bounds.holds(i, freedom)) continue;
        const double bound = bounds.divided(i, freedom);
        const std::vector<std::uint32_t>& kind = set.strategy(i).kind;
        // Each sample where its pipeline is done first, in a random order.
        std::vector<double> load(kind.size(), 0.0);
        std::vector<SampleId> order(c.lengths.size());
        std::iota(order.begin(), order.end(), SampleId{0});
        std::shuffle(order.begin(), order.end(), random);
        double sum = 0.0;
        for (const SampleId id : order) {
          std::size_t best = kind.size();
          double least = std::numeric_limits<double>::infinity();
          for (std::size_t p = 0; p < kind.size(); ++p) {
            const std::size_t k = set.kinds(i)[kind[p]];
            const bool holds = freedom == PlanFreedom::slices ||
                               c.lengths[id] <= set.pipelines()[k].most(freedom == PlanFreedom::recompute);
            const double after = load[p] + bounds.times()(k).work[id];
            if (holds && after < least) {
              least = after;
              best = p;
            }
          }
          REQUIRE(best < kind.size());
          load[best] = least;
          sum += bounds.times()(set.kinds(i)[kind[best]]).work[id];
        }
        const double slowest = *std::max_element(load.begin(), load.end());
        CHECK(bound <= slowest * (1.0 + 1e-9));
        if (set.kinds(i).size() == 1)
          CHECK(bound == Approx(sum / static_cast<double>(kind.size())).epsilon(1e-9));
        if (set.kinds(i).size() > 1) CHECK(bound > 0.2 * slowest);
        divided_further += bound < 0.99 * slowest ? 1 : 0;
        CHECK(bounds(i, freedom) >= bound + set.sync_seconds(i));
        if (bounds.holds(i, PlanFreedom::whole))
          CHECK(bounds(i, freedom) <= bounds(i, PlanFreedom::whole) * (1.0 + 1e-9));
      }
    }
  }
  CHECK(divided_further > 20);
}
