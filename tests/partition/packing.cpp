#include "slimpack/partition/packing.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "slimpack/partition/bounds.hpp"
#include "slimpack/partition/least_slack.hpp"

using namespace slimpack;

namespace {

/// Loads of first-fit decreasing by its definition, slowly.
std::vector<std::int64_t> naive_first_fit(std::vector<std::int64_t> weights, std::int64_t capacity) {
  std::stable_sort(weights.begin(), weights.end(), std::greater<>{});
  std::vector<std::int64_t> loads;
  for (const std::int64_t w : weights) {
    auto first = std::find_if(loads.begin(), loads.end(), [&](std::int64_t l) { return l + w <= capacity; });
    if (first == loads.end()) first = loads.insert(first, 0);
    *first += w;
  }
  return loads;
}

/// What every packing has to be.
void check_packing(const Packing& packing, const std::vector<std::int64_t>& weights, std::int64_t capacity) {
  REQUIRE(packing.bin.size() == weights.size());
  std::vector<std::int64_t> load(packing.load.size(), 0);
  for (std::size_t i = 0; i < weights.size(); ++i) load.at(packing.bin[i]) += weights[i];
  CHECK(load == packing.load);
  for (const std::int64_t l : load) CHECK(l <= capacity);
  CHECK(load.size() >= packing_lower_bound(weights, capacity));
}

/// Bins of best-fit decreasing by its definition, slowly.
std::size_t naive_best_fit(std::vector<std::int64_t> weights, std::int64_t capacity) {
  std::stable_sort(weights.begin(), weights.end(), std::greater<>{});
  std::vector<std::int64_t> rooms;
  for (const std::int64_t w : weights) {
    std::int64_t* best = nullptr;
    for (std::int64_t& room : rooms) {
      if (room >= w && (best == nullptr || room < *best)) best = &room;
    }
    if (best == nullptr) best = &rooms.emplace_back(capacity);
    *best -= w;
  }
  return rooms.size();
}

}  // namespace

TEST_CASE("best-fit decreasing packs as its definition says") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::int64_t capacity = std::vector<std::int64_t>{10, 64, 4096, 5000000}[seed % 4];
    std::vector<std::int64_t> weights(std::uniform_int_distribution<std::size_t>(1, 200)(random));
    for (auto& w : weights)
      w = std::uniform_int_distribution<std::int64_t>(0, seed % 3 == 0 ? capacity : capacity / 3 + 1)(random);
    const Packing packing = best_fit_decreasing(weights, capacity);
    check_packing(packing, weights, capacity);
    CHECK(packing.load.size() == naive_best_fit(weights, capacity));
  }
}

TEST_CASE("few items are packed best-fit as many are, bin by bin") {
  int several = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::int64_t capacity = std::vector<std::int64_t>{10, 64, 4096}[seed % 3];
    std::vector<std::int64_t> weights(std::uniform_int_distribution<std::size_t>(1, 60)(random));
    for (auto& w : weights) w = std::uniform_int_distribution<std::int64_t>(0, capacity / 2)(random);
    const std::int64_t sum = detail::checked_sizes("weight", weights, capacity);
    const Packing few = detail::pack_decreasing<detail::FullestOfFew>(weights, sum, capacity);
    const Packing many = detail::pack_decreasing<detail::FullestFirst>(weights, sum, capacity);
    CHECK(few.bin == many.bin);
    CHECK(few.load == many.load);
    several += many.load.size() > 2 ? 1 : 0;
  }
  CHECK(several > 100);
}

TEST_CASE("first-fit decreasing packs as its definition says") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::int64_t capacity = std::vector<std::int64_t>{10, 64, 4096, std::int64_t{1} << 55}[seed % 4];
    std::vector<std::int64_t> weights(std::uniform_int_distribution<std::size_t>(1, 200)(random));
    for (auto& w : weights)
      w = std::uniform_int_distribution<std::int64_t>(0, seed % 3 == 0 ? capacity : capacity / 3 + 1)(random);
    const Packing packing = first_fit_decreasing(weights, capacity);
    check_packing(packing, weights, capacity);
    CHECK(packing.load == naive_first_fit(weights, capacity));
  }
}

TEST_CASE("least-slack packing fills one bin after another as well as possible") {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::int64_t capacity =
        std::uniform_int_distribution<std::int64_t>(1, seed % 4 == 0 ? 2000 : 60)(random);
    std::vector<std::int64_t> weights(std::uniform_int_distribution<std::size_t>(0, 16)(random));
    for (auto& w : weights)
      w = std::uniform_int_distribution<std::int64_t>(0, seed % 3 == 0 ? capacity : capacity / 3 + 1)(random);
    for (auto& w : weights) w = std::min(w, capacity);
    const Packing packing = least_slack_packing(weights, capacity);
    check_packing(packing, weights, capacity);
    for (std::size_t b = 0; b < packing.load.size(); ++b) {
      std::vector<std::int64_t> left;
      for (std::size_t i = 0; i < weights.size(); ++i)
        if (packing.bin[i] >= b) left.push_back(weights[i]);
      std::sort(left.begin(), left.end(), std::greater<>{});
      // Loads that a bin with the heaviest item can have.
      std::vector<std::uint8_t> possible(static_cast<std::size_t>(capacity) + 1, 0);
      possible[static_cast<std::size_t>(left[0])] = 1;
      for (std::size_t i = 1; i < left.size(); ++i) {
        for (std::int64_t l = capacity; l >= left[i]; --l)
          possible[static_cast<std::size_t>(l)] |= possible[static_cast<std::size_t>(l - left[i])];
      }
      std::int64_t best = capacity;
      while (possible[static_cast<std::size_t>(best)] == 0) --best;
      CHECK(packing.load[b] == best);
    }
  }
}

TEST_CASE("least-slack packing stops a bin when its steps are up") {
  const std::vector<std::int64_t> weights{50, 40, 30, 30, 25, 25};
  CHECK(least_slack_packing(weights, 110).load == std::vector<std::int64_t>{110, 90});
  CHECK(least_slack_packing(weights, 110, {.max_steps_per_bin = 1}).load ==
        std::vector<std::int64_t>{90, 60, 50});
  CHECK(least_slack_packing(weights, 110, {.max_steps_per_bin = 0}).load.size() == 6);
  const std::vector<std::int64_t> ones(20000, 1);
  CHECK(least_slack_packing(ones, 10000).load == std::vector<std::int64_t>{10000, 10000});
}

TEST_CASE("packing at the edges") {
  const auto least_slack = [](std::span<const std::int64_t> w, std::int64_t c) {
    return least_slack_packing(w, c);
  };
  using Pack = Packing (*)(std::span<const std::int64_t>, std::int64_t);
  for (const Pack pack : {Pack{best_fit_decreasing}, Pack{first_fit_decreasing}, Pack{least_slack}}) {
    CHECK(pack({}, 5).load.empty());
    CHECK(pack(std::vector<std::int64_t>{0, 0, 0}, 5).load == std::vector<std::int64_t>{0});
    CHECK(pack(std::vector<std::int64_t>{5}, 5).load == std::vector<std::int64_t>{5});
    CHECK(pack(std::vector<std::int64_t>(9, 5), 5).load == std::vector<std::int64_t>(9, 5));
    CHECK(pack(std::vector<std::int64_t>(9, 2), 5).load == std::vector<std::int64_t>{4, 4, 4, 4, 2});
  }
}

TEST_CASE("packing a million items") {
  std::mt19937_64 random(1);
  std::vector<std::int64_t> weights(1000000);
  for (auto& w : weights)
    w = std::min<std::int64_t>(
        32768, 1 + static_cast<std::int64_t>(std::lognormal_distribution<double>(6, 1.5)(random)));
  const std::size_t bound = packing_lower_bound(weights, 32768);
  for (const auto pack : {best_fit_decreasing, first_fit_decreasing}) {
    const Packing packing = pack(weights, 32768);
    check_packing(packing, weights, 32768);
    CHECK(packing.load.size() == bound);
  }
}

TEST_CASE("packing refuses what fits nowhere") {
  CHECK_THROWS_WITH(best_fit_decreasing(std::vector<std::int64_t>{1, 11}, 10),
                    Catch::Contains("item 1 is 11"));
  CHECK_THROWS_WITH(best_fit_decreasing(std::vector<std::int64_t>{-1}, 10), Catch::Contains("item 0 is -1"));
  CHECK_THROWS_WITH(best_fit_decreasing(std::vector<std::int64_t>{1}, 0), Catch::Contains("capacity is 0"));
  CHECK_THROWS_WITH(first_fit_decreasing(std::vector<std::int64_t>{1, 11}, 10),
                    Catch::Contains("item 1 is 11"));
  CHECK_THROWS_WITH(first_fit_decreasing(std::vector<std::int64_t>{1}, 0), Catch::Contains("capacity is 0"));
  CHECK_THROWS_WITH(least_slack_packing(std::vector<std::int64_t>{1, 11}, 10),
                    Catch::Contains("item 1 is 11"));
  CHECK_THROWS_WITH(least_slack_packing(std::vector<std::int64_t>{1}, 0), Catch::Contains("capacity is 0"));
}
