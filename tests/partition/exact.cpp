#include "slimpack/partition/exact.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "tests/partition/instances.hpp"

using namespace slimpack;

TEST_CASE("the exact assignment has the least makespan of all") {
  std::size_t searched = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    const std::size_t bins = 1 + seed % 5, count = seed % 11;
    const auto weights = test::random_weights<std::int64_t>(seed, count);
    INFO("seed " << seed << ", " << bins << " bins: " << test::print(weights));
    const auto answer = exact_assignment(weights, bins);
    REQUIRE(answer.status == SolveStatus::optimal);
    CHECK(answer.assignment.load == test::loads_of(weights, answer.assignment.bin, bins));
    CHECK(answer.assignment.makespan() == test::Exhaustive<std::int64_t>{weights, bins}.solve());
    CHECK(answer.bound == answer.assignment.makespan());
    const auto hurried = exact_assignment(weights, bins, {.max_steps = seed % 100});
    CHECK(hurried.bound <= answer.bound);
    CHECK(hurried.assignment.makespan() >= answer.bound);
    searched += answer.steps > 0 ? 1 : 0;
    const auto real = test::random_weights<double>(seed, count);
    const auto real_answer = exact_assignment(real, bins);
    REQUIRE(real_answer.status == SolveStatus::optimal);
    CHECK(real_answer.assignment.makespan() ==
          Approx(test::Exhaustive<double>{real, bins}.solve()).epsilon(1e-13));
  }
  CHECK(searched > 30);
}

TEST_CASE("the search alone finds the least makespan in both orders of bins, from any start") {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const std::size_t bins = 2 + seed % 3;
    std::vector<std::int64_t> weights(4 + random() % 6);
    for (auto& w : weights) w = static_cast<std::int64_t>(random() % (seed % 2 == 0 ? 4 : 12));
    INFO("seed " << seed << ", " << bins << " bins: " << test::print(weights));
    const std::int64_t least = test::Exhaustive<std::int64_t>{weights, bins}.solve();
    detail::BranchAndBound<std::int64_t> search(weights, {});
    for (const bool fullest_first : {false, true}) {
      for (const std::int64_t allowed : {least - 1, least, least + 1, std::int64_t{1000}}) {
        CHECK(search.run({.bins = bins,
                          .allowed = allowed,
                          .enough = -1,
                          .fullest_first = fullest_first,
                          .max_steps = 1000000}));
        REQUIRE(search.found() == (allowed >= least));
        if (!search.found()) continue;
        const auto load = test::loads_of(weights, search.bins(), bins);
        CHECK(*std::max_element(load.begin(), load.end()) == least);
      }
    }
  }
}

TEST_CASE("the search alone finds the least makespan under a size limit") {
  std::size_t infeasible = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    const std::size_t bins = 2 + seed % 3;
    std::vector<std::int64_t> weights(4 + random() % 5), sizes(weights.size());
    for (auto& w : weights) w = static_cast<std::int64_t>(random() % 6);
    for (auto& s : sizes) s = static_cast<std::int64_t>(random() % 6);
    const std::int64_t capacity =
        std::max<std::int64_t>(5, test::loads_of(sizes, std::vector<std::uint32_t>(sizes.size(), 0), 1)[0] /
                                          static_cast<std::int64_t>(bins) +
                                      static_cast<std::int64_t>(random() % 2));
    INFO("seed " << seed << ", " << bins << " bins of " << capacity << ": " << test::print(weights)
                 << "sizes " << test::print(sizes));
    const std::int64_t least = test::Exhaustive<std::int64_t>{weights, bins, sizes, capacity}.solve();
    detail::BranchAndBound<std::int64_t> search(weights, {sizes, capacity});
    for (const bool fullest_first : {false, true}) {
      for (const std::int64_t allowed : {least, least + 1, std::int64_t{1000}}) {
        CHECK(search.run({.bins = bins,
                          .allowed = allowed,
                          .enough = -1,
                          .fullest_first = fullest_first,
                          .max_steps = 1000000}));
        REQUIRE(search.found() == (least >= 0 && allowed >= least));
        if (!search.found()) continue;
        const auto load = test::loads_of(weights, search.bins(), bins);
        CHECK(*std::max_element(load.begin(), load.end()) == least);
        for (const std::int64_t size : test::loads_of(sizes, search.bins(), bins)) CHECK(size <= capacity);
      }
    }
    infeasible += least < 0 ? 1 : 0;
  }
  CHECK(infeasible > 100);
  CHECK(infeasible < 2000);
}

TEST_CASE("the exact assignment keeps the size limit, or says that none does") {
  std::size_t infeasible = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    const std::size_t bins = 1 + seed % 4, count = 1 + seed % 9;
    const auto weights = test::random_weights<std::int64_t>(seed, count);
    std::mt19937_64 random(seed + 1000);
    std::vector<std::int64_t> sizes(count);
    std::int64_t sum = 0, largest = 0;
    for (auto& s : sizes) {
      sum += s = static_cast<std::int64_t>(random() % 10);
      largest = std::max(largest, s);
    }
    const std::int64_t capacity =
        std::max(largest, sum / static_cast<std::int64_t>(bins) + static_cast<std::int64_t>(random() % 4));
    INFO("seed " << seed << ", " << bins << " bins of " << capacity << ": " << test::print(weights)
                 << "sizes " << test::print(sizes));
    const std::int64_t least = test::Exhaustive<std::int64_t>{weights, bins, sizes, capacity}.solve();
    const auto answer = exact_assignment(weights, bins, {.limit = {sizes, capacity}});
    if (least < 0) {
      ++infeasible;
      CHECK(answer.status == SolveStatus::infeasible);
      CHECK(answer.assignment.bin.empty());
      continue;
    }
    REQUIRE(answer.status == SolveStatus::optimal);
    CHECK(answer.assignment.makespan() == least);
    CHECK(answer.assignment.load == test::loads_of(weights, answer.assignment.bin, bins));
    for (const std::int64_t size : test::loads_of(sizes, answer.assignment.bin, bins))
      CHECK(size <= capacity);
  }
  CHECK(infeasible > 20);
  CHECK(infeasible < 300);
}

TEST_CASE("the exact packing has the fewest bins of all") {
  std::size_t better = 0;
  for (unsigned seed = 1; seed <= 800; ++seed) {
    std::mt19937 random(seed);
    const std::int64_t capacity = std::uniform_int_distribution<std::int64_t>(1, 60)(random);
    std::vector<std::int64_t> weights(std::uniform_int_distribution<std::size_t>(0, 10)(random));
    for (auto& w : weights)
      w = std::uniform_int_distribution<std::int64_t>(seed % 3 == 0 ? capacity / 5 : 0,
                                                      capacity / 2 + 1)(random);
    for (auto& w : weights) w = std::min(w, capacity);
    INFO("seed " << seed << ", capacity " << capacity << ": " << test::print(weights));
    const auto answer = exact_packing(weights, capacity);
    REQUIRE(answer.status == SolveStatus::optimal);
    const std::size_t fewest = test::fewest_bins(weights, capacity);
    CHECK(answer.packing.load.size() == fewest);
    const auto hurried = exact_packing(weights, capacity, {.max_steps = seed % 40});
    CHECK(hurried.bound <= fewest);
    CHECK(hurried.packing.load.size() >= fewest);
    CHECK((hurried.status == SolveStatus::optimal) == (hurried.bound == hurried.packing.load.size()));
    CHECK(answer.bound == answer.packing.load.size());
    CHECK(answer.packing.load == test::loads_of(weights, answer.packing.bin, answer.packing.load.size()));
    for (const std::int64_t load : answer.packing.load) CHECK(load <= capacity);
    better += answer.packing.load.size() < first_fit_decreasing(weights, capacity).load.size() ? 1 : 0;
  }
  CHECK(better > 0);
}

TEST_CASE("a search that gives up hands back its best answer and a bound") {
  std::size_t optimal = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const std::size_t bins = 4 + seed % 12;
    const auto weights = test::random_weights<std::int64_t>(8 * seed + 5, 40);
    INFO("seed " << seed);
    std::int64_t last = std::numeric_limits<std::int64_t>::max();
    for (const std::uint64_t steps : std::vector<std::uint64_t>{0, 10, 10000}) {
      const auto answer = exact_assignment(weights, bins, {.max_steps = steps});
      REQUIRE((answer.status == SolveStatus::optimal || answer.status == SolveStatus::feasible));
      CHECK(answer.steps <= steps);
      CHECK(answer.bound >= makespan_lower_bound(weights, bins));
      CHECK(answer.bound <= answer.assignment.makespan());
      CHECK(answer.assignment.makespan() <= karmarkar_karp(weights, bins).makespan());
      CHECK(answer.assignment.makespan() <= last);
      CHECK(answer.assignment.load == test::loads_of(weights, answer.assignment.bin, bins));
      last = answer.assignment.makespan();
      optimal += answer.status == SolveStatus::optimal ? 1 : 0;
    }
    const auto packing = exact_packing(weights, 2300, {.max_steps = 1000});
    CHECK(packing.steps <= 1000);
    CHECK(packing.bound <= packing.packing.load.size());
    CHECK(packing.packing.load.size() <= first_fit_decreasing(weights, 2300).load.size());
  }
  CHECK(optimal < 180);
  // Size 5 + 5 and 4 + 3 + 3 fit into two bins of 10; first-fit decreasing needs three.
  const std::vector<std::int64_t> sizes{6, 5, 5, 4, 4, 3, 3}, weights(7, 1);
  CHECK(exact_assignment(weights, 3, {.max_steps = 1, .limit = {sizes, 10}}).status == SolveStatus::optimal);
}

TEST_CASE("a search that gives up claims no bound above a packing that exists") {
  std::size_t feasible = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<std::int64_t> weights;
    for (int bin = 0; bin < 20; ++bin) {  // full ones, cut into three
      const auto first = static_cast<std::int64_t>(150 + random() % 300);
      const auto second = static_cast<std::int64_t>(150 + random() % 300);
      weights.insert(weights.end(), {first, second, 1000 - first - second});
    }
    const auto packing = exact_packing(weights, 1000, {.max_steps = 5000});
    CHECK(packing.bound == 20);
    feasible += packing.status == SolveStatus::feasible ? 1 : 0;
    const auto assignment = exact_assignment(weights, 20, {.max_steps = 5000});
    CHECK(assignment.bound == 1000);
  }
  CHECK(feasible > 0);
}

TEST_CASE("exact answers at the edges") {
  CHECK(exact_assignment(std::vector<double>{}, 3).assignment.load == std::vector<double>{0, 0, 0});
  CHECK(exact_assignment(std::vector<double>{}, 3).status == SolveStatus::optimal);
  CHECK(exact_assignment(std::vector<int>{5}, 1000000).assignment.makespan() == 5);
  CHECK(exact_assignment(std::vector<unsigned>{3, 3, 2, 2, 2}, 2).assignment.makespan() == 6);
  CHECK(exact_assignment(std::vector<float>{0.1F, 0.2F, 0.3F}, 1).status == SolveStatus::optimal);
  const std::vector<std::int64_t> nothing{0, 0};
  CHECK(exact_assignment(std::vector<int>{1, 2}, 2, {.limit = {nothing, 0}}).assignment.makespan() == 2);
  CHECK(exact_packing({}, 10).packing.load.empty());
  CHECK(exact_packing({}, 10).status == SolveStatus::optimal);
  CHECK(exact_packing(std::vector<std::int64_t>(100000, 3), 10).packing.load.size() == 33334);
  CHECK(exact_assignment(std::vector<int>(100000, 3), 7).assignment.makespan() == 3 * 14286);
}

TEST_CASE("exact search refuses what has no answer") {
  const std::vector<std::int64_t> sizes{3, 4};
  CHECK_THROWS_WITH(exact_assignment(std::vector<int>{1}, 0), Catch::Contains("0 bins"));
  CHECK_THROWS_WITH(exact_assignment(std::vector<double>{1, -2}, 2), Catch::Contains("item 1 is -2"));
  CHECK_THROWS_WITH(exact_assignment(std::vector<int>{1, 2}, 2, {.limit = {sizes, 3}}),
                    Catch::Contains("size of item 1 is 4"));
  CHECK_THROWS_WITH(exact_packing(sizes, 3), Catch::Contains("item 1 is 4"));
  CHECK_THROWS_WITH(exact_packing(sizes, 0), Catch::Contains("capacity is 0"));
}
