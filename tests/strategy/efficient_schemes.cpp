#include "slimpack/strategy/efficient_schemes.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

using namespace slimpack;

namespace {

/// Whether `own` does all that `other` does with no more devices a pipeline and no more device-seconds.
bool does_as_well(const ProposalScheme& own, const ProposalScheme& other) {
  for (std::size_t l = 0; l < own.seconds.size(); ++l) {
    if (own.seconds[l] * static_cast<double>(own.ranks) > other.seconds[l] * static_cast<double>(other.ranks))
      return false;
  }
  return own.ranks <= other.ranks && own.max_tokens >= other.max_tokens;
}

}  // namespace

TEST_CASE("of schemes, those stay that no other one makes superfluous, once each") {
  std::size_t left_out = 0, equal = 0;
  for (unsigned seed = 1; seed <= 1000; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
    // Powers of two, so that no product is rounded.
    const int intervals = pick(1, 3), most = pick(1, 4);
    std::vector<ProposalScheme> schemes(static_cast<std::size_t>(pick(1, 8)));
    for (ProposalScheme& scheme : schemes) {
      scheme.ranks = std::int64_t{1} << pick(0, 2);
      scheme.max_tokens = pick(0, 3);
      for (int l = 0; l < intervals; ++l)
        scheme.seconds.push_back(static_cast<double>(pick(1, most)) / static_cast<double>(scheme.ranks));
    }
    const std::vector<std::size_t> kept = detail::efficient_schemes(schemes);
    CHECK(std::is_sorted(kept.begin(), kept.end()));
    for (std::size_t k = 0; k < schemes.size(); ++k) {
      const bool stays = std::find(kept.begin(), kept.end(), k) != kept.end();
      const bool replaced = std::any_of(kept.begin(), kept.end(), [&](std::size_t j) {
        return j != k && does_as_well(schemes[j], schemes[k]);
      });
      CHECK(stays == (schemes[k].max_tokens > 0 && !replaced));
      left_out += stays ? 0 : 1;
      equal += std::any_of(schemes.begin() + static_cast<std::ptrdiff_t>(k) + 1, schemes.end(),
                           [&](const ProposalScheme& other) {
                             return does_as_well(schemes[k], other) && does_as_well(other, schemes[k]);
                           })
                   ? 1
                   : 0;
    }
  }
  CHECK(left_out > 1000);
  CHECK(equal > 100);
}
