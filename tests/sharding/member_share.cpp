#include "slimpack/sharding/member_share.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

using namespace slimpack;

namespace {

struct Instance {
  std::size_t members, ranks;
  Tokens block, length;

  explicit Instance(std::mt19937& random) {
    const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
    members = static_cast<std::size_t>(pick(1, 5));
    ranks = static_cast<std::size_t>(pick(1, 4));
    block = pick(1, 40);
    length = pick(1, 200);
  }

  [[nodiscard]] MemberShare share(std::size_t member) const {
    return {.members = members, .ranks = ranks, .member = member, .block = block};
  }

  /// The most of the first `end` tokens that any of the ranks `[first, last)` owns, token by token.
  [[nodiscard]] double most(Tokens end, std::size_t first, std::size_t last) const {
    std::vector<double> held(members * ranks, 0.0);
    for (Tokens t = 0; t < end; ++t) held[owner_of(t, held.size(), block)] += 1.0;
    return *std::max_element(held.begin() + static_cast<std::ptrdiff_t>(first),
                             held.begin() + static_cast<std::ptrdiff_t>(last));
  }
};

}  // namespace

TEST_CASE("a member holds what its fullest rank owns, times its ranks") {
  for (unsigned seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Instance in(random);
    const auto ranks = static_cast<double>(in.ranks);
    for (std::size_t m = 0; m < in.members; ++m)
      CHECK(in.share(m)({0, 0, in.length}) == ranks * in.most(in.length, m * in.ranks, (m + 1) * in.ranks));
    CHECK(in.share(in.members)({0, 0, in.length}) == ranks * in.most(in.length, 0, in.members * in.ranks));
  }
}

TEST_CASE("slices of a sample add up to what a member holds of it") {
  for (unsigned seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Instance in(random);
    const Tokens cut = std::uniform_int_distribution<Tokens>(0, in.length)(random);
    for (std::size_t m = 0; m <= in.members; ++m) {
      const MemberShare share = in.share(m);
      const std::vector<Slice> pack{{0, 0, cut}, {0, cut, in.length}};
      CHECK(share(pack) == share({0, 0, in.length}));
      CHECK(share(pack[0]) + share(pack[1]) == share(pack));
      CHECK(share(pack[0]) >= 0.0);
    }
  }
}

TEST_CASE("samples that are not shared by position are shared equally") {
  CHECK(MemberShare{.members = 4, .ranks = 2}({0, 10, 20}) == 2.5);
  CHECK(MemberShare{.members = 1, .ranks = 1, .block = 8}({0, 10, 20}) == 10.0);
  CHECK(MemberShare{.members = 2, .ranks = 1, .member = 1, .block = 8}({0, 0, 1}) == 0.0);
}
