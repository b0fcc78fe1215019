#include "slimpack/sharding/by_position.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

using namespace slimpack;

namespace {

/// Chunk sizes of the growing rounds: the last has half a block, the one before it half of the rest, and so on.
std::vector<Tokens> first_chunks(Tokens block) {
  std::vector<Tokens> chunks;
  for (Tokens rest = block; rest > 0; rest -= chunks.front()) chunks.insert(chunks.begin(), (rest + 1) / 2);
  return chunks;
}

/// Owner of each token by dealing chunks out by hand: to the members in turn, then back.
std::vector<std::size_t> deal(Tokens tokens, std::size_t members, Tokens block) {
  const std::vector<Tokens> first = first_chunks(block);
  std::vector<std::size_t> owners;
  for (std::size_t round = 0; std::ssize(owners) < tokens; ++round) {
    const auto chunk = static_cast<std::size_t>(round < first.size() ? first[round] : block);
    for (std::size_t m = 0; m < members; ++m) owners.insert(owners.end(), chunk, m);
    for (std::size_t m = members; m-- > 0;) owners.insert(owners.end(), chunk, m);
  }
  return owners;
}

}  // namespace

TEST_CASE("each token of a slice has one owner, the same however the sample is sliced") {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
    const auto members = static_cast<std::size_t>(pick(1, 7));
    const Tokens block = pick(1, 40), begin = pick(0, 150), end = begin + pick(0, 150);
    INFO("case " << i << ": " << members << " members, block " << block << ", [" << begin << ", " << end
                 << ")");
    const auto expected = deal(end, members, block);
    std::vector<int> held(static_cast<std::size_t>(end), 0);
    for (std::size_t member = 0; member < members; ++member) {
      std::vector<Slice> ranges;
      owned_ranges({7, begin, end}, members, member, block, ranges);
      Tokens count = 0, reached = begin - 1;
      for (const Slice& range : ranges) {
        REQUIRE(range.sample == 7);
        REQUIRE(range.begin < range.end);
        // In order, and touching ranges are one.
        REQUIRE(range.begin > reached);
        reached = range.end;
        count += range.size();
        REQUIRE(range.end <= end);
        for (Tokens t = range.begin; t < range.end; ++t) {
          ++held[static_cast<std::size_t>(t)];
          REQUIRE(owner_of(t, members, block) == member);
          REQUIRE(expected[static_cast<std::size_t>(t)] == member);
        }
      }
      REQUIRE(count == owned_tokens({7, begin, end}, members, member, block));
    }
    for (Tokens t = 0; t < end; ++t) REQUIRE(held[static_cast<std::size_t>(t)] == (t >= begin ? 1 : 0));
  }
}

TEST_CASE("a member's tokens are found by their numbers") {
  for (std::size_t members = 1; members <= 7; ++members) {
    for (const Tokens block : {1, 3, 8, 21}) {
      std::vector<Tokens> rows(members, 0);
      for (Tokens t = 0; t < 400; ++t) {
        const std::size_t owner = owner_of(t, members, block);
        REQUIRE(owned_token(rows[owner]++, members, owner, block) == t);
      }
    }
  }
}

TEST_CASE("members differ by at most one pair of blocks") {
  for (std::size_t members = 1; members <= 6; ++members) {
    for (const Tokens block : {1, 3, 8}) {
      for (Tokens begin = 0; begin < 60; ++begin) {
        for (Tokens end = begin; end < begin + 120; ++end) {
          Tokens least = end, most = 0;
          for (std::size_t m = 0; m < members; ++m) {
            const Tokens tokens = owned_tokens({0, begin, end}, members, m, block);
            least = std::min(least, tokens);
            most = std::max(most, tokens);
          }
          if (most - least > 2 * block) {
            FAIL(members << " members, block " << block << ", [" << begin << ", " << end << "): " << least
                         << " to " << most);
          }
        }
      }
    }
  }
}

TEST_CASE("no member holds half more of a sample than an equal share, however short it is") {
  for (std::size_t members = 1; members <= 9; ++members) {
    const auto g = static_cast<Tokens>(members);
    for (const Tokens block : {1, 3, 8, 50, 64}) {
      for (Tokens length = 2 * g; length < 6 * g * block; ++length) {
        Tokens most = 0;
        for (std::size_t m = 0; m < members; ++m)
          most = std::max(most, owned_tokens({0, 0, length}, members, m, block));
        if (2 * g * (most - 2) > 3 * length)
          FAIL(members << " members, block " << block << ": one holds " << most << " of " << length);
      }
    }
  }
}

TEST_CASE("causal attention over whole rounds is equal among members") {
  for (std::size_t members = 1; members <= 6; ++members) {
    for (const Tokens block : {1, 4, 64}) {
      const Tokens length = 3 * 2 * static_cast<Tokens>(members) * block;
      std::vector<Tokens> pairs(members, 0);
      for (Tokens t = 0; t < length; ++t) pairs[owner_of(t, members, block)] += t + 1;
      for (const Tokens own : pairs) CHECK(own == pairs[0]);
    }
  }
}

TEST_CASE("counting owned tokens of a very long slice does not overflow") {
  const Tokens length = Tokens{1} << 40;
  Tokens sum = 0;
  for (std::size_t m = 0; m < 3; ++m) sum += owned_tokens({0, 5, length}, 3, m, 64);
  CHECK(sum == length - 5);
}

TEST_CASE("ownership refuses impossible arguments") {
  std::vector<Slice> out;
  CHECK_THROWS_WITH(owned_ranges({0, 0, 1}, 2, 2, 8, out), "member is 2; expected below the 2 members");
  CHECK_THROWS_WITH(owned_ranges({0, 0, 1}, 2, 0, 0, out),
                    "block is 0; expected a positive number of tokens");
  CHECK(out.empty());
}

TEST_CASE("shards by position hold each token of a pack once, where its owner is") {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    INFO("round " << round);
    const auto below = [&](int n) { return static_cast<Tokens>(random() % static_cast<unsigned>(n)); };
    std::vector<Slice> pack;
    for (Tokens n = below(4); n >= 0; --n) {
      const Tokens begin = below(60);
      pack.push_back({static_cast<SampleId>(n), begin, begin + 1 + below(90)});
    }
    const auto ranks = static_cast<std::int32_t>(1 + below(5));
    const Tokens block = 1 + below(9);
    const ContextShards shards = position_shards(pack, ranks, block);
    CHECK(shards.tokens == count_tokens(pack));
    REQUIRE(shards.ranks.size() == static_cast<std::size_t>(ranks));
    std::vector<int> held(static_cast<std::size_t>(shards.tokens), 0);
    for (std::size_t rank = 0; rank < shards.ranks.size(); ++rank) {
      for (const Slice& chunk : shards.ranks[rank]) {
        CHECK(chunk.size() > 0);
        for (Tokens t = chunk.begin; t < chunk.end; ++t)
          CHECK(owner_of(t, shards.ranks.size(), block) == rank);
      }
      for (const Tokens i : token_indices(shards, rank)) ++held[static_cast<std::size_t>(i)];
    }
    for (const int count : held) CHECK(count == 1);
  }
  CHECK_THROWS_WITH(position_shards({}, 0, 1), "there are 0 ranks; expected a positive number");
  CHECK_THROWS_WITH(position_shards({}, 1, 0), "block is 0; expected a positive number of tokens");
}
