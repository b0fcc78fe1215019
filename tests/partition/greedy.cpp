#include "slimpack/partition/greedy.hpp"

#include <catch2/catch.hpp>
#include <random>

using namespace slimpack;

namespace {

/// Least makespan over all assignments.
double exact(const std::vector<double>& weights, std::vector<double>& load, std::size_t item = 0) {
  if (item == weights.size()) return *std::max_element(load.begin(), load.end());
  double best = std::numeric_limits<double>::infinity();
  for (double& bin : load) {
    bin += weights[item];
    best = std::min(best, exact(weights, load, item + 1));
    bin -= weights[item];
  }
  return best;
}

}  // namespace

TEST_CASE("LPT lies between the optimum and Graham's bound") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto bins = std::uniform_int_distribution<std::size_t>(1, 3)(random);
    std::vector<double> weights(std::uniform_int_distribution<std::size_t>(1, 8)(random));
    for (double& w : weights) {
      w = seed % 4 == 0 ? 3.0 : std::floor(std::lognormal_distribution<double>(1.0, 1.5)(random));
    }
    if (seed % 5 == 0) weights[0] = 1000.0;
    const Assignment a = lpt(weights, bins);
    std::vector<double> sums(bins, 0.0), empty(bins, 0.0);
    for (std::size_t i = 0; i < weights.size(); ++i) sums[a.bin[i]] += weights[i];
    for (std::size_t b = 0; b < bins; ++b) CHECK(sums[b] == Approx(a.load[b]));
    const double least = exact(weights, empty);
    CHECK(a.makespan() >= least * (1 - 1e-12));
    CHECK(a.makespan() <= least * (4.0 / 3.0 - 1.0 / (3.0 * static_cast<double>(bins))) * (1 + 1e-12));
  }
}

TEST_CASE("LPT adds to what bins already hold") {
  const std::vector<double> weights{2, 2, 2, 1}, loads{5, 0, 3};
  const Assignment a = LptSolver().solve(weights, loads);
  CHECK(a.bin == std::vector<std::uint32_t>{1, 1, 2, 1});
  CHECK(a.load == std::vector<double>{5, 5, 5});
}

TEST_CASE("LPT refuses what has no answer") {
  CHECK_THROWS_WITH(lpt(std::vector<double>{1}, 0), Catch::Contains("0 bins"));
  CHECK_THROWS_WITH(lpt(std::vector<double>{1, -2}, 2), Catch::Contains("item 1 is -2"));
  CHECK_THROWS_WITH(lpt(std::vector<double>{std::nan("")}, 2), Catch::Contains("item 0 is"));
}
