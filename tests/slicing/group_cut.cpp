#include "slimpack/slicing/group_cut.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <random>

using namespace slimpack;

TEST_CASE("merged and local samples fill whole packs as nearly as any numbers near their share do") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const GroupCut how{.packs = 2 + random() % 40, .exact = random() % 2 == 0};
    const double merged = 1.0 + static_cast<double>(random() % 1000),
                 local = 1.0 + static_cast<double>(random() % 1000);
    const GroupPackSize size = group_pack_size(how, merged, local);
    const auto wanted = static_cast<double>(how.packs);
    const auto imbalance = [&](std::size_t packs) {
      const auto m = static_cast<double>(packs);
      const double l = std::max(1.0, how.exact ? wanted - m : std::round(local / merged * m));
      return std::max(merged / m, local / l) / ((merged + local) / (m + l));
    };
    REQUIRE(size.merged_packs >= 1);
    CHECK(size.seconds == Approx(merged / static_cast<double>(size.merged_packs)));
    const double share = merged / (merged + local) * wanted;
    CHECK(std::abs(static_cast<double>(size.merged_packs) - share) <= std::max(1.0, share / 8.0) + 1.0);
    const double reach = std::max(1.0, share / 8.0);
    const auto most = static_cast<std::size_t>(std::max(1.0, std::min(wanted - 1.0, share + reach)));
    for (auto packs = static_cast<std::size_t>(std::max(1.0, std::floor(share - reach))); packs <= most;
         ++packs)
      CHECK(imbalance(size.merged_packs) <= imbalance(packs) + 1e-3 + 1e-9);
  }
  CHECK(group_pack_size({.packs = 7}, 0.0, 14.0).merged_packs == 0);
  CHECK(group_pack_size({.packs = 7}, 0.0, 14.0).packs_of(14.0) == 7);
  CHECK(group_pack_size({.packs = 7}, 14.0, 0.0).merged_packs == 7);
}
