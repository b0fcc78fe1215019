#include "slimpack/sharding/sample_owners.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "tests/effort.hpp"

using namespace slimpack;

namespace {

/// Samples that are dealt by position, by a list, or not at all, and the owner of each of their tokens.
struct DealtCase {
  explicit DealtCase(unsigned seed) : random(seed) {
    const std::size_t samples = pick(1, 5);
    block = static_cast<Tokens>(pick(1, 20));
    owners = SampleOwners(samples, block);
    for (SampleId sample = 0; sample < samples; ++sample) {
      const std::size_t members = pick(1, 6), way = pick(0, 2);
      if (way == 0) add_listed(sample, members);
      if (way == 1) add_by_position(sample, members);
      if (way == 2) owner_of_token.emplace_back(pick(1, 150), 0);
      counts.push_back(way == 2 ? 1 : members);
    }
  }

  std::size_t pick(std::size_t lo, std::size_t hi) {
    return std::uniform_int_distribution<std::size_t>(lo, hi)(random);
  }

  void add_by_position(SampleId sample, std::size_t members) {
    owners.deal_by_position(sample, members);
    auto& tokens = owner_of_token.emplace_back();
    for (std::size_t length = pick(1, 150), t = 0; t < length; ++t)
      tokens.push_back(owner_of(static_cast<Tokens>(t), members, block));
  }

  /// In any order; some ranges of a member touch.
  void add_listed(SampleId sample, std::size_t members) {
    auto& tokens = owner_of_token.emplace_back();
    std::vector<OwnedRange> ranges;
    for (std::size_t count = pick(1, 12); count > 0; --count) {
      const auto begin = static_cast<Tokens>(tokens.size());
      tokens.resize(tokens.size() + pick(1, 15), pick(0, members - 1));
      ranges.push_back({begin, static_cast<Tokens>(tokens.size()), tokens.back()});
    }
    std::shuffle(ranges.begin(), ranges.end(), random);
    owners.deal(sample, members, ranges);
  }

  std::mt19937 random;
  Tokens block = 1;
  SampleOwners owners;
  std::vector<std::size_t> counts;                       ///< members of each sample
  std::vector<std::vector<std::size_t>> owner_of_token;  ///< [sample][token]
};

/// The part of a slice with these rows of a member has exactly their tokens.
void check_rows(const DealtCase& c, const Slice& slice, std::size_t member, Tokens first, Tokens rows) {
  const auto& owner = c.owner_of_token[slice.sample];
  std::vector<Tokens> wanted, found;
  for (Tokens t = 0, row = 0; t < slice.end; ++t) {
    if (owner[static_cast<std::size_t>(t)] != member) continue;
    if (t >= slice.begin && row >= first && row < first + rows) wanted.push_back(t);
    ++row;
  }
  const Slice part = c.owners.part_of_rows(slice, member, first, rows);
  REQUIRE((slice.begin <= part.begin && part.begin <= part.end && part.end <= slice.end));
  c.owners.for_each_owned_range(part, member, [&](const Slice& range) {
    for (Tokens t = range.begin; t < range.end; ++t) found.push_back(t);
  });
  REQUIRE(found == wanted);
}

}  // namespace

TEST_CASE("owners of samples are those that they were dealt to, whatever the slice") {
  for (unsigned seed = 1; seed <= testing::seeds(300, 60); ++seed) {
    INFO("seed " << seed);
    DealtCase c(seed);
    CHECK(c.owners.block() == c.block);
    for (SampleId sample = 0; sample < c.counts.size(); ++sample) {
      const auto& owner = c.owner_of_token[sample];
      REQUIRE(c.owners.members(sample) == c.counts[sample]);
      for (int n = 0; n < 10; ++n) {
        const auto begin = static_cast<Tokens>(c.pick(0, owner.size()));
        const auto end = static_cast<Tokens>(c.pick(static_cast<std::size_t>(begin), owner.size()));
        for (std::size_t member = 0; member < c.counts[sample]; ++member) {
          std::vector<Slice> expected, ranges;
          for (Tokens t = begin; t < end; ++t) {
            if (owner[static_cast<std::size_t>(t)] != member) continue;
            if (expected.empty() || expected.back().end < t) expected.push_back({sample, t, t});
            expected.back().end = t + 1;
          }
          c.owners.for_each_owned_range({sample, begin, end}, member,
                                        [&](const Slice& range) { ranges.push_back(range); });
          REQUIRE(ranges == expected);
          REQUIRE(c.owners.owned_tokens({sample, begin, end}, member) == count_tokens(expected));
          const auto first = static_cast<Tokens>(c.pick(0, 40)), rows = static_cast<Tokens>(c.pick(1, 40));
          check_rows(c, {sample, begin, end}, member, first, rows);
        }
      }
    }
  }
}

TEST_CASE("a sample can be dealt again") {
  SampleOwners owners(2, 4);
  std::vector<OwnedRange> ranges{{0, 5, 1}, {5, 9, 0}};
  owners.deal(1, 2, ranges);
  CHECK(owners.owned_tokens({1, 0, 9}, 0) == 4);
  std::vector<OwnedRange> others{{0, 9, 2}};
  owners.deal(1, 3, others);
  CHECK(owners.owned_tokens({1, 0, 9}, 0) == 0);
  CHECK(owners.owned_tokens({1, 3, 9}, 2) == 6);
  owners.deal_by_position(1, 2);
  CHECK(owners.owned_tokens({1, 0, 9}, 0) == owned_tokens({1, 0, 9}, 2, 0, 4));
  CHECK(owners.members(0) == 1);
  CHECK(owners.owned_tokens({0, 2, 9}, 0) == 7);
}
