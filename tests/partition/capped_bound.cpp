#include "slimpack/partition/capped_bound.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "tests/partition/instances.hpp"

using namespace slimpack;

TEST_CASE("with a size limit, no assignment is below the bound") {
  int above = 0, solved = 0;
  for (unsigned seed = 1; seed <= 500; ++seed) {
    std::mt19937 random(seed);
    const auto weights = test::random_weights<double>(seed, 1 + random() % 8);
    const std::size_t bins = 1 + random() % 4;
    std::vector<std::int64_t> sizes;
    std::int64_t sum = 0, most = 1;
    for (const double weight : weights) {
      sizes.push_back(seed % 3 == 0
                          ? static_cast<std::int64_t>(random() % 50)
                          : static_cast<std::int64_t>(std::sqrt(weight)) + static_cast<int>(random() % 2));
      sum += sizes.back();
      most = std::max(most, sizes.back());
    }
    const auto share = static_cast<std::int64_t>(bins);
    const std::int64_t capacity = std::max(most, (sum + share - 1) / share + static_cast<int>(random() % 4));
    INFO("seed " << seed << ", " << bins << " bins of " << capacity << ", weights " << test::print(weights)
                 << "sizes " << test::print(sizes));
    const double bound = makespan_lower_bound(weights, bins, {sizes, capacity});
    const double plain = makespan_lower_bound(weights, bins);
    CHECK(bound >= plain);
    const double best = test::Exhaustive<double>{weights, bins, sizes, capacity}.solve();
    if (best < 0.0) continue;
    ++solved;
    CHECK(bound <= best * (1.0 + 1e-12));
    if (bound > plain * (1.0 + 1e-9)) ++above;
  }
  CHECK(solved > 200);
  CHECK(above > 5);
}

TEST_CASE("a tight limit fills the heaviest item's bin") {
  // Both bins are full: the item of 6 shares its bin with 4 of the others' 14 tokens, which weigh 1 each.
  const std::vector<double> weights{36.0, 1.0, 1.0, 2.0};
  const std::vector<std::int64_t> sizes{6, 4, 4, 6};
  CHECK(makespan_lower_bound(weights, 2) == 36.0);
  CHECK(makespan_lower_bound(weights, 2, {sizes, 10}) == 37.0);
  CHECK(makespan_lower_bound(weights, 2, {}) == 36.0);
  CHECK_THROWS_WITH(makespan_lower_bound(weights, 2, {sizes, 5}), Catch::Contains("item 0 is 6"));
}
