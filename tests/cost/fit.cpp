#ifdef SLIMPACK_TEST_EIGEN
#include "slimpack/cost/fit.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "slimpack/cost/concepts.hpp"

using namespace slimpack;

static_assert(CostModel<FittedCost>);

namespace {

std::vector<ProfileRow> profile(double a, double b, double c, double noise, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> error(1.0, std::max(noise, 1e-9));
  std::vector<ProfileRow> rows;
  for (Tokens l = 128; l <= 262144; l *= 2) {
    const double x = static_cast<double>(l);
    rows.push_back({l, (a * x * x + b * x + c) * (noise > 0 ? error(random) : 1.0)});
  }
  return rows;
}

}  // namespace

TEST_CASE("a quadratic profile is recovered, with its error") {
  const QuadraticFit exact = fit_quadratic(profile(3e-12, 2e-7, 1e-4, 0.0, 1));
  CHECK(exact.a == Approx(3e-12).epsilon(1e-6));
  CHECK(exact.b == Approx(2e-7).epsilon(1e-6));
  CHECK(exact.c == Approx(1e-4).epsilon(1e-6));
  CHECK(exact.max_relative_error < 1e-9);
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    const QuadraticFit noisy = fit_quadratic(profile(3e-12, 2e-7, 1e-4, 0.02, seed));
    CHECK(noisy.a == Approx(3e-12).epsilon(0.15));
    CHECK(noisy.b == Approx(2e-7).epsilon(0.15));
    CHECK(noisy.rms_relative_error < 0.04);
    CHECK(noisy.rms_relative_error > 0.002);
    CHECK(noisy.max_relative_error >= noisy.rms_relative_error);
  }
}

TEST_CASE("coefficients are never negative") {
  const QuadraticFit concave =
      fit_quadratic(std::vector<ProfileRow>{{100, 1.0}, {200, 1.9}, {400, 3.0}, {800, 5.0}});
  CHECK(concave.a == 0.0);
  CHECK(concave.b > 0.0);
  CHECK(concave.c >= 0.0);
}

TEST_CASE("a fitted model prices slices that add up") {
  const QuadraticFit forward = fit_quadratic(profile(1e-12, 1e-7, 1e-5, 0, 1)),
                     backward = fit_quadratic(profile(3e-12, 2e-7, 2e-5, 0, 1));
  const FittedCost cost(forward, backward, 4, {.bandwidth = 1e9, .latency = 1e-6}, 1e4);
  CHECK(cost.slice_seconds(0, 0, 5000, Pass::backward) + cost.slice_seconds(0, 5000, 9000, Pass::backward) ==
        Approx(cost.slice_seconds(3, 0, 9000, Pass::backward)));
  CHECK(cost.slice_seconds(0, 0, 9000, Pass::forward) + cost.pack_seconds(0, Pass::forward) ==
        Approx(forward.seconds(9000)));
  CHECK(cost.transfer_seconds(0, 100, Pass::forward) == Approx(1e-6 + 1e-3));
  static_assert(PolynomialCostModel<FittedCost>);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    CHECK(cost.coefficients(1, pass).seconds(3000, 7000) ==
          Approx(cost.slice_seconds(1, 3000, 7000, pass)).epsilon(1e-12));
  }
}

TEST_CASE("useful packs are the shortest that reach a share of the best efficiency") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](double most) { return std::uniform_real_distribution<double>(0.0, most)(random); };
    const QuadraticFit fit{
        .a = seed % 4 == 0 ? 0.0 : pick(1e-9), .b = pick(1e-5), .c = seed % 5 == 0 ? 0.0 : pick(1e-2)};
    const Tokens longest = 1 + static_cast<Tokens>(random() % 5000);
    const double share = 0.5 + pick(0.5);
    const auto efficiency = [&](Tokens l) { return double(l) / fit.seconds(double(l)); };
    double best = 0.0;
    for (Tokens l = 1; l <= longest; ++l) best = std::max(best, efficiency(l));
    Tokens first = 1;
    while (efficiency(first) < share * best * (1.0 - 1e-9)) ++first;
    INFO("seed " << seed << ", " << fit.a << " " << fit.b << " " << fit.c << ", " << longest << ", "
                 << share);
    // The best of whole numbers may be a little worse than the best of all.
    CHECK(std::abs(useful_tokens(fit, longest, share) - first) <= 1);
  }
  CHECK_THROWS_WITH(useful_tokens({}, 10), Catch::Contains("not all 0"));
  CHECK_THROWS_WITH(useful_tokens({.b = 1.0}, 10, 1.5), Catch::Contains("share is 1.5"));
  CHECK_THROWS_WITH(useful_tokens({.b = 1.0}, 0), Catch::Contains("longest is 0"));
}

TEST_CASE("profiles that say too little are refused") {
  CHECK_THROWS_WITH(fit_quadratic(std::vector<ProfileRow>{{1, 1.0}, {2, 1.0}, {2, 1.1}}),
                    Catch::Contains("2 different lengths"));
  CHECK_THROWS_WITH(fit_quadratic(std::vector<ProfileRow>{{1, 1.0}, {0, 1.0}, {3, 1.0}}),
                    Catch::Contains("row 1 has 0 tokens"));
  CHECK_THROWS_WITH(fit_quadratic(std::vector<ProfileRow>{{1, 1.0}, {2, -1.0}, {3, 1.0}}),
                    Catch::Contains("row 1 has -1 seconds"));
}
#endif
