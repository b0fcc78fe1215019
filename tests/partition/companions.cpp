#include "slimpack/partition/companions.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "tests/partition/instances.hpp"

using namespace slimpack;

namespace {

using Numbers = std::vector<std::int64_t>;

std::int64_t sum_of(const Numbers& values, const std::vector<std::uint32_t>& items) {
  std::int64_t sum = 0;
  for (const std::uint32_t i : items) sum += values.at(i);
  return sum;
}

/// The lightest of all subsets that leave out one item and whose size is from `least` to `most`.
std::optional<std::int64_t> lightest_of(const Numbers& weights, const Numbers& sizes, std::uint32_t without,
                                        std::int64_t least, std::int64_t most) {
  std::optional<std::int64_t> best;
  for (std::uint32_t mask = 0; mask < 1U << sizes.size(); ++mask) {
    std::vector<std::uint32_t> subset;
    for (std::uint32_t i = 0; i < sizes.size(); ++i) {
      if ((mask >> i & 1) != 0) subset.push_back(i);
    }
    const std::int64_t size = sum_of(sizes, subset), weight = sum_of(weights, subset);
    if ((mask >> without & 1) == 0 && size >= least && size <= most)
      best = std::min(best.value_or(weight), weight);
  }
  return best;
}

}  // namespace

TEST_CASE("sums are those of all subsets, and the first subset of each is kept") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937_64 random(seed);
    const auto most = static_cast<std::int64_t>(random() % 300);
    Numbers sizes(random() % 9), weights(sizes.size());
    for (auto& s : sizes) s = static_cast<std::int64_t>(random() % (seed % 2 == 0 ? 20 : 150));
    for (auto& w : weights) w = static_cast<std::int64_t>(random() % 50);
    INFO("seed " << seed << ", up to " << most << ": " << test::print(sizes) << test::print(weights));
    detail::SubsetSums<std::int64_t> sums(most);
    std::map<std::int64_t, std::int64_t> first{{0, 0}};  // the weight by sum
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      sums.add(sizes[i], weights[i]);
      for (const auto& [sum, weight] : std::map(first)) first.emplace(sum + sizes[i], weight + weights[i]);
    }
    for (std::int64_t least = 0; least <= most; ++least) {
      std::optional<std::int64_t> lightest;
      for (const auto& [sum, weight] : first) {
        if (sum >= least && sum <= most) lightest = std::min(lightest.value_or(weight), weight);
      }
      const auto subset = sums.lightest(least);
      REQUIRE(subset.has_value() == lightest.has_value());
      if (!subset) continue;
      CHECK(std::set(subset->begin(), subset->end()).size() == subset->size());
      CHECK(sum_of(weights, *subset) == *lightest);
      CHECK((sum_of(sizes, *subset) >= least && sum_of(sizes, *subset) <= most));
    }
  }
}

TEST_CASE("companions leave what the other bins can hold, and are found wherever there are some") {
  std::size_t none = 0, alone = 0, needed = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    // Any weights; weights that are sizes; equal sizes. For the last two, nothing lighter than the answer exists.
    const unsigned kind = seed % 3;
    std::mt19937_64 random(seed);
    Numbers weights(2 + random() % 7), sizes(weights.size());
    for (auto& s : sizes)
      s = kind == 2 ? 12 : static_cast<std::int64_t>(random() % (seed % 2 == 0 ? 10 : 200));
    for (auto& w : weights) w = static_cast<std::int64_t>(random() % 100);
    if (kind == 1) weights = sizes;
    const auto heaviest = static_cast<std::uint32_t>(std::ranges::max_element(weights) - weights.begin());
    const auto bins = 2 + static_cast<std::int64_t>(random() % 3);
    const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    const std::int64_t capacity =
        std::max(std::ranges::max(sizes), total / bins) + static_cast<std::int64_t>(random() % 6);
    INFO("seed " << seed << ": " << bins << " bins of " << capacity << ", sizes " << test::print(sizes)
                 << "weights " << test::print(weights));
    const std::int64_t most = capacity - sizes[heaviest];
    const std::int64_t least = std::max<std::int64_t>(total - bins * capacity + most, 0);
    const auto lightest = lightest_of(weights, sizes, heaviest, least, most);
    const auto found = detail::lightest_companions<std::int64_t>(weights, {sizes, capacity},
                                                                 static_cast<std::size_t>(bins), heaviest);
    REQUIRE(found.has_value() == lightest.has_value());
    ++(!found ? none : least == 0 ? alone : needed);
    if (!found) continue;
    CHECK(std::set(found->begin(), found->end()).size() == found->size());
    CHECK(std::count(found->begin(), found->end(), heaviest) == 0);
    CHECK((sum_of(sizes, *found) >= least && sum_of(sizes, *found) <= most));
    if (least == 0) CHECK(found->empty());
    if (kind != 0) CHECK(sum_of(weights, *found) == *lightest);
  }
  CHECK(none > 50);
  CHECK(alone > 50);
  CHECK(needed > 300);
}

TEST_CASE("companions are not looked for among sums of too large sizes") {
  const Numbers weights{9, 1, 2};
  const auto found = [&](std::int64_t scale) {
    const Numbers sizes{2 * scale, 3 * scale, 3 * scale};
    return detail::lightest_companions<std::int64_t>(weights, {sizes, 5 * scale}, 2, 0);
  };
  CHECK(found(1 << 18) == std::vector<std::uint32_t>{1});
  CHECK_FALSE(found(1 << 22));
}
