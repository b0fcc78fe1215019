#include "slimpack/strategy/proposal.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

using namespace slimpack;

namespace {

struct ProposalCase {
  std::vector<ProposalScheme> schemes;
  std::vector<Tokens> ends;
  std::int64_t devices = 1, steps = 1;
};

ProposalCase random_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  ProposalCase c;
  c.devices = pick(1, 9);
  c.steps = pick(0, 2) == 0 ? 1 : pick(2, 4);
  Tokens end = 0;
  for (int l = pick(1, 7); l > 0; --l) c.ends.push_back(end += pick(1, 300));
  for (int k = pick(1, 4); k > 0; --k) {
    ProposalScheme& scheme = c.schemes.emplace_back();
    scheme.ranks = pick(1, static_cast<int>(c.devices));
    scheme.max_tokens = pick(1, static_cast<int>(end) + 100);
    for (std::size_t l = 0; l < c.ends.size(); ++l)
      scheme.seconds.push_back(pick(0, 3) == 0 ? 0.0 : std::uniform_real_distribution(0.1, 9.0)(random));
  }
  return c;
}

/// Eq. 4 as it is written: t[n][l] over all steps of devices and all intervals.
std::vector<double> plain_table(const ProposalCase& c) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const auto most = static_cast<std::size_t>(c.devices * c.steps);
  std::vector<std::vector<double>> t(most + 1, std::vector<double>(c.ends.size() + 1, infinite));
  for (std::size_t n = 0; n <= most; ++n) {
    t[n][0] = 0.0;
    for (std::size_t l = 1; n > 0 && l <= c.ends.size(); ++l) {
      t[n][l] = t[n - 1][l];
      for (const ProposalScheme& scheme : c.schemes) {
        if (scheme.max_tokens < c.ends[l - 1]) continue;
        for (std::size_t d = 1; d * static_cast<std::size_t>(scheme.ranks) <= n; ++d) {
          double work = 0.0;
          for (std::size_t begin = l; begin-- > 0;) {
            work += scheme.seconds[begin];
            const double own = work * static_cast<double>(c.steps) / static_cast<double>(d);
            const double rest = t[n - d * static_cast<std::size_t>(scheme.ranks)][begin];
            t[n][l] = std::min(t[n][l], std::max(rest, own));
          }
        }
      }
    }
  }
  return {t[most].begin() + 1, t[most].end()};
}

}  // namespace

TEST_CASE("the proposal's times are those of Eq. 4, for all lengths at once") {
  int finite = 0;
  for (unsigned seed = 1; seed <= 2000; ++seed) {
    INFO("seed " << seed);
    const ProposalCase c = random_case(seed);
    const std::vector<double> plain = plain_table(c);
    const std::vector<ProposedStrategy> proposed =
        propose_strategies(c.schemes, c.ends, c.devices, {.steps = c.steps});
    REQUIRE(proposed.size() == plain.size());
    for (std::size_t l = 0; l < plain.size(); ++l) {
      if (plain[l] == std::numeric_limits<double>::infinity()) {
        CHECK(proposed[l].seconds == plain[l]);
        continue;
      }
      ++finite;
      CHECK(proposed[l].seconds == Approx(plain[l]).epsilon(1e-12).margin(1e-12));
    }
  }
  CHECK(finite > 3000);
}

TEST_CASE("proposed strategies take no more devices than there are, and hold the longest samples") {
  for (unsigned seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    const ProposalCase c = random_case(seed);
    const auto proposed = propose_strategies(c.schemes, c.ends, c.devices, {.steps = c.steps});
    for (std::size_t l = 0; l < proposed.size(); ++l) {
      if (proposed[l].steps.empty()) continue;
      std::int64_t devices = 0;
      bool holds = false;
      for (std::size_t k = 0; k < c.schemes.size(); ++k) {
        devices += proposed[l].steps[k] * c.schemes[k].ranks;
        holds = holds || (proposed[l].steps[k] > 0 && c.schemes[k].max_tokens >= c.ends[l]);
      }
      CHECK(devices <= c.devices * c.steps);
      CHECK(holds);
    }
  }
}

TEST_CASE("proposals are refused for what makes no sense") {
  const std::vector<ProposalScheme> one{{.ranks = 1, .max_tokens = 10, .seconds = {1.0, 2.0}}};
  const std::vector<Tokens> ends{5, 10};
  CHECK_THROWS_WITH(propose_strategies({}, ends, 4), Catch::Contains("there are no schemes"));
  CHECK_THROWS_WITH(propose_strategies(one, ends, 0), Catch::Contains("number of devices is 0"));
  CHECK_THROWS_WITH(propose_strategies(one, std::vector<Tokens>{5, 5}, 4),
                    Catch::Contains("interval 1 ends at 5 tokens; expected more than the 5"));
  CHECK_THROWS_WITH(propose_strategies(one, std::vector<Tokens>{5}, 4),
                    Catch::Contains("seconds of 2 intervals; expected 1"));
  CHECK_THROWS_WITH(propose_strategies(one, ends, 4, {.steps = 0}), Catch::Contains("steps is 0"));
}
