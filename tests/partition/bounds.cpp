#include "slimpack/partition/bounds.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "slimpack/partition/packing.hpp"
#include "tests/partition/instances.hpp"

using namespace slimpack;

namespace {

/// Martello and Toth's L2 by its definition, for every a, and items counted by weight.
std::size_t naive_bound(const std::vector<std::int64_t>& weights, std::int64_t capacity) {
  std::int64_t bound = weights.empty() ? 0 : 1;
  for (std::int64_t a = 0; 2 * a <= capacity; ++a) {
    std::int64_t heavy = 0, room = 0, light = 0;
    for (const std::int64_t w : weights) {
      if (2 * w > capacity) {
        ++heavy;
        if (w <= capacity - a) room += capacity - w;
      } else if (w >= a) {
        light += w;
      }
    }
    if (a > 0) {
      const auto count =
          std::count_if(weights.begin(), weights.end(), [&](std::int64_t w) { return w >= a; });
      if (count > 0) bound = std::max(bound, (count - 1) / (capacity / a) + 1);
    }
    bound = std::max(bound, heavy + std::max<std::int64_t>(0, (light - room + capacity - 1) / capacity));
  }
  return static_cast<std::size_t>(bound);
}

/// The bound on the makespan by its definition.
std::int64_t naive_makespan_bound(std::vector<std::int64_t> weights, std::size_t bins) {
  std::sort(weights.begin(), weights.end(), std::greater<>{});
  std::int64_t sum = 0, bound = 0;
  for (const std::int64_t w : weights) sum += w;
  while (bound * static_cast<std::int64_t>(bins) < sum) ++bound;
  for (std::size_t c = 0; c * bins + 1 <= weights.size(); ++c) {
    std::int64_t lightest = 0;
    for (std::size_t i = 0; i <= c; ++i) lightest += weights[c * bins - i];
    bound = std::max(bound, lightest);
  }
  return bound;
}

}  // namespace

TEST_CASE("the makespan's lower bound is its definition's, and below the optimum") {
  std::size_t reached = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    const std::size_t bins = 1 + seed % 4, count = seed % 10;
    const auto weights = test::random_weights<std::int64_t>(seed, count);
    INFO("seed " << seed << ", " << bins << " bins: " << test::print(weights));
    const std::int64_t bound = makespan_lower_bound(weights, bins);
    const std::int64_t least = test::Exhaustive<std::int64_t>{weights, bins}.solve();
    CHECK(bound <= least);
    if (least < 100000) CHECK(bound == naive_makespan_bound(weights, bins));
    reached += bound == least ? 1 : 0;
    const std::vector<double> real(weights.begin(), weights.end());
    CHECK(makespan_lower_bound(real, bins) <= static_cast<double>(least));
  }
  CHECK(reached > 300);
}

TEST_CASE("the makespan's lower bound counts items") {
  CHECK(makespan_lower_bound(std::vector<int>{5, 5, 5}, 2) == 10);
  CHECK(makespan_lower_bound(std::vector<int>(7, 3), 3) == 9);
  CHECK(makespan_lower_bound(std::vector<double>{9, 1, 1}, 2) == 9.0);
  CHECK(makespan_lower_bound(std::vector<double>{}, 2) == 0.0);
  CHECK(makespan_lower_bound(std::vector<double>{1, 2, 3, 1}, 2) == 3.5);
  CHECK(makespan_lower_bound(std::vector<int>{1, 2, 4}, 100) == 4);
  CHECK(makespan_lower_bound(std::vector<int>(1000000, 7), 2) == 3500000);
}

TEST_CASE("the lower bound on bins is its definition's, and below the optimum") {
  std::size_t reached = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::int64_t capacity = std::uniform_int_distribution<std::int64_t>(1, 40)(random);
    std::vector<std::int64_t> weights(std::uniform_int_distribution<std::size_t>(0, 9)(random));
    for (auto& w : weights)
      w = std::uniform_int_distribution<std::int64_t>(seed % 3 == 0 ? capacity / 4 : 0, capacity)(random);
    const std::size_t bound = packing_lower_bound(weights, capacity);
    CHECK(bound == naive_bound(weights, capacity));
    const std::size_t least = test::fewest_bins(weights, capacity);
    CHECK(bound <= least);
    CHECK(3 * bound >= 2 * least);
    reached += bound == least ? 1 : 0;
  }
  CHECK(reached > 300);
}

TEST_CASE("the lower bound on bins at the edges") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK(packing_lower_bound(std::vector<std::int64_t>{}, 10) == 0);
  CHECK(packing_lower_bound(std::vector<std::int64_t>{0, 0}, 10) == 1);
  CHECK(packing_lower_bound(std::vector<std::int64_t>{6, 6, 6}, 10) == 3);
  CHECK(packing_lower_bound(std::vector<std::int64_t>{7, 7, 7, 4}, 10) == 4);  // the sum needs 3
  CHECK(packing_lower_bound(std::vector<std::int64_t>(7, 3), 10) == 3);
  CHECK(packing_lower_bound(std::vector<std::int64_t>{most / 2, most / 2}, most) == 1);
  CHECK(packing_lower_bound(std::vector<std::int64_t>{most}, most) == 1);
  CHECK_THROWS_WITH(packing_lower_bound(std::vector<std::int64_t>{most, 1}, most), Catch::Contains("item 1"));
  CHECK_THROWS_WITH(packing_lower_bound(std::vector<std::int64_t>{3, 11}, 10),
                    Catch::Contains("item 1 is 11"));
  CHECK_THROWS_WITH(packing_lower_bound(std::vector<std::int64_t>{1}, 0), Catch::Contains("capacity is 0"));
  CHECK_THROWS_WITH(makespan_lower_bound(std::vector<int>{1}, 0), Catch::Contains("0 bins"));
}
