#include "slimpack/partition/balanced_samples.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "instances.hpp"

using namespace slimpack;

TEST_CASE("samples are dealt once each, bins by falling work, none with more than LPT's bound allows") {
  int better = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t bins = 1 + random() % 3;
    const std::vector<double> work = test::random_weights<double>(seed, random() % 10);
    const std::vector<std::vector<SampleId>> dealt = balanced_samples(work, bins);
    REQUIRE(dealt.size() == bins);
    std::vector<SampleId> all;
    std::vector<double> loads;
    for (const std::vector<SampleId>& own : dealt) {
      CHECK(std::is_sorted(own.begin(), own.end()));
      all.insert(all.end(), own.begin(), own.end());
      loads.push_back(0.0);
      for (const SampleId id : own) loads.back() += work[id];
    }
    std::sort(all.begin(), all.end());
    std::vector<SampleId> expected(work.size());
    std::iota(expected.begin(), expected.end(), SampleId{0});
    CHECK(all == expected);
    for (std::size_t b = 1; b < bins; ++b) CHECK(loads[b] <= loads[b - 1] * (1 + 1e-12));
    const double least = test::Exhaustive<double>{work, bins}.solve(), most = loads.front();
    CHECK(most >= least * (1 - 1e-12));
    CHECK(most <= least * (4.0 / 3.0 - 1.0 / (3.0 * static_cast<double>(bins))) * (1 + 1e-12));
    const double lpt_most = lpt(work, bins).makespan();
    CHECK(most <= lpt_most * (1 + 1e-12));
    better += most < lpt_most * (1 - 1e-12) ? 1 : 0;
  }
  CHECK(better > 5);
}
