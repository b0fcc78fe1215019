#include "slimpack/schedule/sequence_groups.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

using namespace slimpack;

namespace {

/// Costs of all groups: random ones, no group costing less than a part of it.
std::vector<std::vector<double>> random_costs(std::mt19937& random, std::uint32_t classes) {
  std::vector<std::vector<double>> cost(classes, std::vector<double>(classes + 1, 0.0));
  std::exponential_distribution<double> more(1.0);
  const bool limited = std::bernoulli_distribution(0.3)(random);
  for (std::uint32_t length = 1; length <= classes; ++length) {
    for (std::uint32_t begin = 0; begin + length <= classes; ++begin) {
      double own = std::bernoulli_distribution(0.4)(random) ? 0.0 : more(random);
      if (limited && std::bernoulli_distribution(0.1)(random)) own = std::numeric_limits<double>::infinity();
      if (length > 1) own = std::max({own, cost[begin][begin + length - 1], cost[begin + 1][begin + length]});
      cost[begin][begin + length] = own;
    }
  }
  return cost;
}

/// The least cost over all ways to cut classes into groups.
double best_of_all(const std::vector<std::vector<double>>& cost, double group_seconds) {
  const std::size_t classes = cost.size();
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t cuts = 0; cuts < (std::size_t{1} << (classes - 1)); ++cuts) {
    double sum = 0.0;
    std::size_t begin = 0;
    for (std::size_t end = 1; end <= classes; ++end) {
      if (end < classes && (cuts >> (end - 1) & 1) == 0) continue;
      sum += group_seconds + cost[begin][end];
      begin = end;
    }
    best = std::min(best, sum);
  }
  return best;
}

}  // namespace

TEST_CASE("sequences are grouped at the least cost of all ways to group them") {
  for (unsigned seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto classes = std::uniform_int_distribution<std::uint32_t>(1, 10)(random);
    const auto cost = random_costs(random, classes);
    const double group_seconds = std::uniform_real_distribution<double>(0.0, 1.5)(random);
    const SequenceGroups groups =
        group_sequences(classes, group_seconds, [&](auto begin, auto end) { return cost[begin][end]; });
    const double best = best_of_all(cost, group_seconds);
    if (best == std::numeric_limits<double>::infinity()) {
      CHECK(groups.cost == best);
      continue;
    }
    CHECK(groups.cost == Approx(best));
    REQUIRE(groups.ends.back() == classes);
    double sum = 0.0;
    std::uint32_t begin = 0;
    for (const std::uint32_t end : groups.ends) {
      REQUIRE(end > begin);
      sum += group_seconds + cost[begin][end];
      begin = end;
    }
    CHECK(sum == Approx(groups.cost));
    CHECK(groups.solved <= classes * (classes + 1) / 2);
  }
}

TEST_CASE("if nothing has to be recomputed, one cost of each prefix is asked for") {
  const SequenceGroups groups = group_sequences(40, 1.0, [](auto, auto) { return 0.0; });
  CHECK(groups.ends == std::vector<std::uint32_t>{40});
  CHECK(groups.solved == 40);
}
