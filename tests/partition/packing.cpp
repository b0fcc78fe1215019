#include "slimpack/partition/packing.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>

using namespace slimpack;

namespace {

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
    std::vector<std::int64_t> load(packing.load.size(), 0);
    for (std::size_t i = 0; i < weights.size(); ++i) load[packing.bin[i]] += weights[i];
    CHECK(load == packing.load);
    CHECK(*std::max_element(load.begin(), load.end()) <= capacity);
    CHECK(packing.load.size() == naive_best_fit(weights, capacity));
  }
}

TEST_CASE("best-fit decreasing refuses what fits nowhere") {
  CHECK_THROWS_WITH(best_fit_decreasing(std::vector<std::int64_t>{1, 11}, 10),
                    Catch::Contains("item 1 is 11"));
  CHECK_THROWS_WITH(best_fit_decreasing(std::vector<std::int64_t>{-1}, 10), Catch::Contains("item 0 is -1"));
  CHECK_THROWS_WITH(best_fit_decreasing(std::vector<std::int64_t>{1}, 0), Catch::Contains("capacity is 0"));
}
