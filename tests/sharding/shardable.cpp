#include "slimpack/sharding/shardable.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "slimpack/core/error.hpp"

using namespace slimpack;

namespace {

/// Packs of random slices, some empty.
Packs random_packs(std::mt19937& random) {
  Packs packs;
  SampleId sample = 0;
  for (std::size_t k = 1 + random() % 8; k > 0; --k) {
    for (std::size_t n = random() % 4; n > 0; --n)
      packs.add({sample++, 0, 1 + static_cast<Tokens>(random() % 12)});
    packs.close();
  }
  return packs;
}

std::vector<SampleId> samples_of(const Packs& packs) {
  std::vector<SampleId> ids;
  for (const Slice& slice : packs.slices()) ids.push_back(slice.sample);
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace

TEST_CASE(
    "each pack has a token for every rank, packs that had enough are kept in order, and no slice is lost") {
  int joined = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Packs packs = random_packs(random);
    const auto ranks = static_cast<std::int32_t>(1 + random() % 10);
    const Tokens all = count_tokens(packs.slices());
    if (all > 0 && all < ranks) {
      CHECK_THROWS_AS(shardable_packs(packs, ranks), InvalidInput);
      continue;
    }
    const Packs out = shardable_packs(packs, ranks);
    CHECK(samples_of(out) == samples_of(packs));
    std::vector<std::size_t> large;
    for (std::size_t k = 0; k < packs.size(); ++k) {
      if (count_tokens(packs[k]) >= ranks) large.push_back(k);
    }
    REQUIRE(out.size() == (all == 0 ? 0 : std::max<std::size_t>(1, large.size())));
    for (std::size_t k = 0; k < out.size(); ++k) {
      CHECK(count_tokens(out[k]) >= ranks);
      if (large.empty()) continue;
      const std::span<const Slice> before = packs[large[k]];
      CHECK(std::equal(before.begin(), before.end(), out[k].begin()));
      joined += out[k].size() > before.size();
    }
  }
  CHECK(joined > 30);
}

TEST_CASE("fewer tokens than ranks are refused with both numbers") {
  Packs packs;
  packs.add({0, 0, 5});
  packs.close();
  packs.add({1, 0, 2});
  packs.close();
  CHECK_THROWS_WITH(shardable_packs(packs, 8), "cp is 8; expected at most the 7 tokens of the iteration");
  CHECK(shardable_packs(Packs(), 8).empty());
}
