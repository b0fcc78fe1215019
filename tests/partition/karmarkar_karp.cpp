#include "slimpack/partition/karmarkar_karp.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "slimpack/partition/greedy.hpp"
#include "tests/partition/instances.hpp"

using namespace slimpack;

namespace {

/// Loads of the method by its definition, in decreasing order: every tuple has a load per bin, reduced by its
/// least one, and the two with the largest spread are searched among all.
std::vector<std::int64_t> naive_differencing(const std::vector<std::int64_t>& weights, std::size_t bins,
                                             bool equal_counts) {
  std::vector<std::vector<std::int64_t>> tuples;
  std::vector<std::int64_t> sorted = weights;
  std::sort(sorted.begin(), sorted.end(), std::greater<>{});
  for (std::size_t i = 0; i < sorted.size(); i += equal_counts ? bins : 1) {
    std::vector<std::int64_t> tuple(
        sorted.begin() + static_cast<std::ptrdiff_t>(i),
        sorted.begin() + static_cast<std::ptrdiff_t>(std::min(sorted.size(), i + (equal_counts ? bins : 1))));
    tuple.resize(bins, 0);
    tuples.push_back(tuple);
  }
  const auto narrower = [](const auto& a, const auto& b) {
    return a.front() - a.back() < b.front() - b.back();
  };
  std::int64_t reduced = 0;
  while (tuples.size() > 1) {
    std::vector<std::vector<std::int64_t>> pair;
    for (int i = 0; i < 2; ++i) {
      const auto widest = std::max_element(tuples.begin(), tuples.end(), narrower);
      pair.push_back(*widest);
      tuples.erase(widest);
    }
    for (std::size_t b = 0; b < bins; ++b) pair[0][b] += pair[1][bins - 1 - b];
    std::sort(pair[0].begin(), pair[0].end(), std::greater<>{});
    const std::int64_t least = pair[0].back();
    for (std::int64_t& load : pair[0]) load -= least;
    reduced += least;
    tuples.push_back(pair[0]);
  }
  for (std::int64_t& load : tuples[0]) load += reduced;
  return tuples[0];
}

template <class W>
void check_answer(const std::vector<W>& weights, std::size_t bins, const BasicAssignment<W>& answer) {
  REQUIRE(answer.bin.size() == weights.size());
  REQUIRE(answer.load.size() == bins);
  const std::vector<W> load = test::loads_of(weights, answer.bin, bins);
  for (std::size_t b = 0; b < bins; ++b)
    CHECK(static_cast<double>(load[b]) == Approx(static_cast<double>(answer.load[b])));
  CHECK(std::is_sorted(answer.load.begin(), answer.load.end(), std::greater<>{}));
}

}  // namespace

TEST_CASE("differencing gives the loads of its definition") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    const auto bins = std::uniform_int_distribution<std::size_t>(1, seed % 5 == 0 ? 40 : 6)(random);
    std::vector<std::int64_t> weights(std::uniform_int_distribution<std::size_t>(1, 120)(random));
    // Equal spreads may be joined in any order, so none occur here.
    const double sigma = static_cast<double>(seed % 4);
    for (auto& w : weights)
      w = static_cast<std::int64_t>(1e9 * std::lognormal_distribution<double>(0.0, sigma)(random) +
                                    static_cast<double>(random() % 1000000000));
    const auto answer = karmarkar_karp(weights, bins);
    check_answer(weights, bins, answer);
    CHECK(answer.load == naive_differencing(weights, bins, false));
    const auto even = karmarkar_karp(weights, bins, {.equal_counts = true});
    check_answer(weights, bins, even);
    if (weights.size() % bins == 0) CHECK(even.load == naive_differencing(weights, bins, true));
    std::vector<std::size_t> count(bins, 0);
    for (const std::uint32_t b : even.bin) ++count[b];
    CHECK(*std::max_element(count.begin(), count.end()) - *std::min_element(count.begin(), count.end()) <= 1);
  }
}

TEST_CASE("differencing of few items lies between the optimum and its proven ratio") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    const std::size_t bins = 1 + seed % 4, count = seed % 10;
    const auto weights = test::random_weights<std::int64_t>(seed, count);
    INFO("seed " << seed << ", " << bins << " bins: " << test::print(weights));
    const auto answer = karmarkar_karp(weights, bins);
    check_answer(weights, bins, answer);
    const std::int64_t least = test::Exhaustive<std::int64_t>{weights, bins}.solve();
    CHECK(answer.makespan() >= least);
    const auto k = static_cast<std::int64_t>(bins);
    if (k == 1) CHECK(answer.makespan() == least);
    if (k == 2) CHECK(6 * answer.makespan() <= 7 * least);  // Fischetti and Martello 1987
    if (k > 2) CHECK(3 * (k - 1) * answer.makespan() <= (4 * (k - 1) - 1) * least);  // Michiels et al. 2003
  }
}

TEST_CASE("differencing of floating-point weights, and with memory kept between calls") {
  KarmarkarKarpSolver<double> solver;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const std::size_t bins = 1 + seed % 9, count = seed * 7 % 300;
    const auto weights = test::random_weights<double>(seed, count);
    INFO("seed " << seed);
    const KarmarkarKarpOptions options{.equal_counts = seed % 3 == 0};
    const auto answer = solver.solve(weights, bins, options);
    check_answer(weights, bins, answer);
    CHECK(answer == karmarkar_karp(weights, bins, options));
  }
}

TEST_CASE("differencing halves where LPT does not") {
  const std::vector<int> weights{8, 7, 6, 5, 4};  // Karmarkar and Karp's result: 16 and 14; LPT: 17 and 13
  CHECK(karmarkar_karp(weights, 2).load == std::vector<int>{16, 14});
  CHECK(lpt(std::vector<double>{8, 7, 6, 5, 4}, 2).makespan() == 17.0);
}

TEST_CASE("differencing at the edges") {
  CHECK(karmarkar_karp(std::vector<double>{}, 3).load == std::vector<double>{0, 0, 0});
  CHECK(karmarkar_karp(std::vector<double>{}, 3, {.equal_counts = true}).load ==
        std::vector<double>{0, 0, 0});
  CHECK(karmarkar_karp(std::vector<int>{5}, 3).load == std::vector<int>{5, 0, 0});
  CHECK(karmarkar_karp(std::vector<int>{0, 0, 0}, 2).load == std::vector<int>{0, 0});
  CHECK(karmarkar_karp(std::vector<unsigned>{1, 2, 3}, 1).load == std::vector<unsigned>{6});
  CHECK(karmarkar_karp(std::vector<int>(12, 3), 4).load == std::vector<int>{9, 9, 9, 9});
  CHECK(karmarkar_karp(std::vector<float>{1.5F, 1.5F, 3.0F}, 2).load == std::vector<float>{3, 3});
}

TEST_CASE("differencing of a million items") {
  std::mt19937_64 random(1);
  std::vector<std::int64_t> weights(1000000);
  std::int64_t sum = 0;
  for (auto& w : weights)
    sum += w = static_cast<std::int64_t>(std::lognormal_distribution<double>(8, 1.5)(random));
  const auto answer = karmarkar_karp(weights, 512);
  check_answer(weights, 512, answer);
  CHECK(answer.makespan() - answer.load.back() <= 1);
  CHECK(answer.makespan() == (sum + 511) / 512);
}

TEST_CASE("differencing refuses what has no answer") {
  CHECK_THROWS_WITH(karmarkar_karp(std::vector<double>{1}, 0), Catch::Contains("0 bins"));
  CHECK_THROWS_WITH(karmarkar_karp(std::vector<double>{1, -2}, 2), Catch::Contains("item 1 is -2"));
  CHECK_THROWS_WITH(karmarkar_karp(std::vector<int>{1, -2}, 2), Catch::Contains("item 1 is -2"));
  CHECK_THROWS_WITH(karmarkar_karp(std::vector<double>{INFINITY}, 2), Catch::Contains("item 0 is inf"));
  CHECK_THROWS_WITH(karmarkar_karp(std::vector<int>{2000000000, 2000000000}, 2),
                    Catch::Contains("up to item 1"));
}
