#include "slimpack/slicing/equal_slices.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/model/presets.hpp"
#include "tests/schedule/random_rows.hpp"

using namespace slimpack;

namespace {

/// The least seconds of the longest slice over all ways to cut, by dynamic programming.
double least_longest(const SlicePrices& prices, Tokens length, std::size_t count, Tokens tile) {
  std::vector<Tokens> ends{0};
  for (Tokens end = tile; end < length; end += tile) ends.push_back(end);
  ends.push_back(length);
  std::vector<double> best(ends.size(), std::numeric_limits<double>::infinity());
  best[0] = 0.0;
  for (std::size_t n = 0; n < count; ++n) {
    std::vector<double> next(ends.size(), std::numeric_limits<double>::infinity());
    for (std::size_t e = 1; e < ends.size(); ++e) {
      for (std::size_t b = 0; b < e; ++b)
        next[e] = std::min(next[e], std::max(best[b], prices(ends[b], ends[e])));
    }
    best = next;
  }
  return best.back();
}

void check_slices(const EqualSlices& slices, const SlicePrices& prices, Tokens length, std::size_t count,
                  Tokens tile) {
  REQUIRE(slices.sizes.size() == count);
  Tokens end = 0;
  double most = 0.0;
  for (const Tokens size : slices.sizes) {
    REQUIRE(size > 0);
    most = std::max(most, prices(end, end + size));
    end += size;
    CHECK((end == length || end % tile == 0));
  }
  CHECK(end == length);
  CHECK(slices.most == Approx(most).epsilon(1e-9));
}

}  // namespace

TEST_CASE("the longest of equal slices takes as little as any cut allows") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto length = std::uniform_int_distribution<Tokens>(1, 60)(random);
    const auto tile = std::uniform_int_distribution<Tokens>(1, 4)(random);
    const Tokens tiles = (length - 1) / tile + 1;
    const auto count = static_cast<std::size_t>(
        std::uniform_int_distribution<Tokens>(1, std::min<Tokens>(tiles, 9))(random));
    const Pass pass = seed % 2 == 0 ? Pass::forward : Pass::backward;
    const Prices uneven(oracle::random_cost(random, 2));
    const Prices polynomial(CalibratedCost({transformer_preset("tiny"), device_preset("cpu"), Layout{}}));
    for (const Prices* prices : {&uneven, &polynomial}) {
      const SlicePrices own(*prices, pass);
      const EqualSlices slices = equal_slices(own, length, count, tile);
      check_slices(slices, own, length, count, tile);
      CHECK(slices.most == Approx(least_longest(own, length, count, tile)).epsilon(1e-9));
    }
  }
}

TEST_CASE("slices of a long sample take equal time to within a token") {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const Prices prices(CalibratedCost({transformer_preset("llama-13b"), device_preset("a800"), Layout{}}));
    const SlicePrices own(prices, pass);
    const EqualSlices slices = equal_slices(own, 262144, 16);
    check_slices(slices, own, 262144, 16, 1);
    double sum = 0.0;
    Tokens end = 0;
    for (const Tokens size : slices.sizes) {
      sum += own(end, end + size);
      end += size;
    }
    CHECK(slices.most / (sum / 16.0) <= 1.0005);
  }
}

TEST_CASE("a sample has at least a tile for each slice") {
  const Prices prices(CalibratedCost({transformer_preset("tiny"), device_preset("cpu"), Layout{}}));
  const SlicePrices own(prices, Pass::backward);
  CHECK_THROWS_WITH(equal_slices(own, 1000, 9, 128), Catch::Contains("9 slices; expected 1 to 8"));
  CHECK_THROWS_WITH(equal_slices(own, 1000, 0), Catch::Contains("0 slices; expected 1 to 1000"));
  CHECK_THROWS_WITH(equal_slices(own, 0, 1), Catch::Contains("0 tokens; expected a positive number"));
}
