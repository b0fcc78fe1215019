#include "slimpack/partition/equal_counts.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

using namespace slimpack;

namespace {

struct Bins {
  std::vector<double> load;
  std::vector<int> count;

  double fullest() const { return *std::max_element(load.begin(), load.end()); }
  int spread() const {
    return *std::max_element(count.begin(), count.end()) - *std::min_element(count.begin(), count.end());
  }
};

Bins filled(const std::vector<double>& weights, const std::vector<std::uint32_t>& bin, std::size_t bins) {
  Bins out{std::vector<double>(bins, 0.0), std::vector<int>(bins, 0)};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    out.load[bin[i]] += weights[i];
    ++out.count[bin[i]];
  }
  return out;
}

std::vector<std::uint32_t> in_turn(std::size_t items, std::size_t bins) {
  std::vector<std::uint32_t> bin;
  for (std::size_t i = 0; i < items; ++i) bin.push_back(static_cast<std::uint32_t>(i % bins));
  return bin;
}

/// The least makespan of all assignments whose counts differ by at most one, by trying them all.
double least_makespan(const std::vector<double>& weights, std::size_t bins) {
  std::vector<std::uint32_t> bin(weights.size(), 0);
  double least = std::numeric_limits<double>::infinity();
  for (;;) {
    const Bins now = filled(weights, bin, bins);
    if (now.spread() <= 1) least = std::min(least, now.fullest());
    std::size_t i = 0;
    while (i < bin.size() && ++bin[i] == bins) bin[i++] = 0;
    if (i == bin.size()) return least;
  }
}

}  // namespace

TEST_CASE("counts are equal, and the fullest bin is no fuller than if items were dealt in turn") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::vector<double> weights;
    const bool heavy_tail = random() % 2 == 0;
    for (std::size_t k = random() % 40; k > 0; --k)
      weights.push_back(
          static_cast<double>(1 + random() % (heavy_tail && random() % 8 == 0 ? 100000 : 1000)));
    const std::size_t bins = 1 + random() % 9;
    const Bins balanced = filled(weights, assign_equal_counts(weights, bins), bins);
    CHECK(balanced.spread() <= 1);
    CHECK(balanced.fullest() <= filled(weights, in_turn(weights.size(), bins), bins).fullest());
  }
}

TEST_CASE("on small cases the fullest bin is close to the best possible") {
  double sum = 0.0;
  const int cases = 100;
  for (unsigned seed = 0; seed < cases; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t bins = 2 + random() % 2;
    std::vector<double> weights;
    for (std::size_t k = bins + random() % (9 - bins); k > 0; --k)
      weights.push_back(static_cast<double>(1 + random() % 1000));
    const double least = least_makespan(weights, bins);
    const double found = filled(weights, assign_equal_counts(weights, bins), bins).fullest();
    CHECK(found >= least * (1.0 - 1e-12));
    CHECK(found <= 4.0 / 3.0 * least);
    sum += found / least;
  }
  CHECK(sum / cases < 1.02);
}
