#include "slimpack/sharding/context.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "tests/sharding/documents.hpp"

using namespace slimpack;

namespace {

/// The document and position of each token of the sequence.
std::vector<std::pair<std::uint32_t, Tokens>> tokens_of(const std::vector<Slice>& documents) {
  std::vector<std::pair<std::uint32_t, Tokens>> tokens;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    for (Tokens t = documents[d].begin; t < documents[d].end; ++t) {
      tokens.emplace_back(static_cast<std::uint32_t>(d), t);
    }
  }
  return tokens;
}

/// The index lists are a permutation of the sequence and name the tokens that the chunks name; chunks are in
/// order, not empty and not adjacent; tokens of ranks differ by at most one.
void check_partition(const ContextShards& shards, const std::vector<Slice>& documents, std::int32_t cp) {
  const auto tokens = tokens_of(documents);
  REQUIRE(shards.ranks.size() == static_cast<std::size_t>(cp));
  REQUIRE(shards.tokens == static_cast<Tokens>(tokens.size()));
  std::vector<std::int64_t> all;
  std::size_t fewest = tokens.size(), most = 0;
  bool consistent = true;
  for (std::size_t r = 0; r < shards.ranks.size(); ++r) {
    const auto indices = token_indices(shards, r);
    consistent &= std::is_sorted(indices.begin(), indices.end());
    fewest = std::min(fewest, indices.size());
    most = std::max(most, indices.size());
    std::size_t at = 0;
    const Slice* previous = nullptr;
    for (const Slice& chunk : shards.ranks[r]) {
      consistent &= chunk.begin < chunk.end;
      consistent &= previous == nullptr || previous->sample != chunk.sample || previous->end < chunk.begin;
      previous = &chunk;
      for (Tokens t = chunk.begin; t < chunk.end; ++t, ++at) {
        consistent &= tokens.at(static_cast<std::size_t>(indices.at(at))) == std::pair(chunk.sample, t);
      }
    }
    all.insert(all.end(), indices.begin(), indices.end());
    const auto narrow = token_indices<std::int32_t>(shards, r);
    consistent &= std::equal(indices.begin(), indices.end(), narrow.begin(), narrow.end());
  }
  CHECK(consistent);
  CHECK(most - fewest <= 1);
  std::sort(all.begin(), all.end());
  std::vector<std::int64_t> expected(tokens.size());
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(all == expected);
}

/// Chunks of a rank as ranges of the sequence, adjacent ones joined.
std::vector<std::pair<Tokens, Tokens>> ranges_of(const ContextShards& shards, std::size_t rank) {
  std::vector<std::pair<Tokens, Tokens>> ranges;
  for (const Slice& chunk : shards.ranks[rank]) {
    const Tokens offset = shards.offsets[chunk.sample];
    if (!ranges.empty() && ranges.back().second == offset + chunk.begin) {
      ranges.back().second = offset + chunk.end;
    } else {
      ranges.emplace_back(offset + chunk.begin, offset + chunk.end);
    }
  }
  return ranges;
}

std::vector<std::uint8_t> random_marks(unsigned seed, std::size_t count) {
  std::mt19937_64 random(seed);
  const std::uint64_t share = random() % 5;
  std::vector<std::uint8_t> marks(count);
  for (auto& mark : marks) mark = random() % 4 < share ? 1 : 0;
  return marks;
}

}  // namespace

TEST_CASE("shards are a permutation of the sequence, and tokens of ranks differ by at most one") {
  ContextSharder reused;
  ContextShards again;
  for (unsigned seed = 0; seed < 1200; ++seed) {
    const auto documents = test::random_documents(seed, seed % 23, 1 + 41 * (seed % 131), seed % 7 == 0);
    const auto cp = static_cast<std::int32_t>(std::min<Tokens>(1 + seed / 6 % 33, count_tokens(documents)));
    INFO("seed " << seed << ", cp " << cp << ": " << test::print(documents));
    check_partition(per_sequence_shards(documents, cp), documents, cp);
    check_partition(per_document_shards(documents, cp), documents, cp);
    const auto marks = random_marks(seed, documents.size());
    const ContextShards mixed = mixed_shards(documents, cp, marks);
    check_partition(mixed, documents, cp);
    reused.shard(documents, cp, marks, again);
    CHECK(again == mixed);
  }
}

TEST_CASE("as many ranks as tokens, and more ranks than a document's tokens") {
  const auto documents = whole_documents(std::vector<Tokens>{3, 1, 7});
  for (const auto& shards : {per_sequence_shards(documents, 11), per_document_shards(documents, 11)}) {
    check_partition(shards, documents, 11);
    for (std::size_t r = 0; r < 11; ++r) CHECK(shards.ranks[r].size() == 1);
  }
  check_partition(per_document_shards(documents, 10), documents, 10);
}

TEST_CASE("per-sequence chunks come in mirrored pairs whose lengths differ by at most one") {
  for (unsigned seed = 0; seed < 600; ++seed) {
    const auto documents = test::random_documents(seed, seed % 9, 1 + seed);
    const Tokens tokens = count_tokens(documents);
    const auto cp = static_cast<std::int32_t>(std::min<Tokens>(1 + seed % 33, tokens));
    INFO("seed " << seed << ", cp " << cp << ": " << test::print(documents));
    const ContextShards shards = per_sequence_shards(documents, cp);
    // From outside in, each rank takes what the ranks before it leave at both ends.
    Tokens low = 0, high = tokens, shortest = tokens, longest = 0;
    for (std::size_t r = 0; r < shards.ranks.size(); ++r) {
      const auto ranges = ranges_of(shards, r);
      const bool innermost = r + 1 == shards.ranks.size();
      REQUIRE(ranges.size() == (innermost || ranges.size() == 1 ? 1u : 2u));
      REQUIRE(ranges.front().first == low);
      low = ranges.front().second;
      if (innermost) {
        CHECK(low == high);
        shortest = std::min(shortest, (ranges.front().second - ranges.front().first) / 2);
        longest = std::max(longest, (ranges.front().second - ranges.front().first + 1) / 2);
        break;
      }
      shortest = std::min(shortest, low - ranges.front().first);
      longest = std::max(longest, low - ranges.front().first);
      if (ranges.size() == 2) {
        REQUIRE(ranges.back().second == high);
        high = ranges.back().first;
        shortest = std::min(shortest, ranges.back().second - high);
        longest = std::max(longest, ranges.back().second - high);
      } else {
        shortest = 0;
      }
    }
    CHECK(longest - shortest <= 1);
  }
}

TEST_CASE("per-document sharding of one even document is that of its sequence") {
  for (const Tokens chunk : {1, 5, 127, 128, 1000}) {
    for (std::int32_t cp = 1; cp <= 9; ++cp) {
      const auto documents = whole_documents(std::vector<Tokens>{2 * chunk * cp});
      const ContextShards shards = per_document_shards(documents, cp);
      CHECK(shards == per_sequence_shards(documents, cp));
      CHECK(balance(shards).most_pairs == balance(shards).least_pairs);
    }
  }
}

TEST_CASE("documents longer than 2 cp tiles have balanced work") {
  double worst = 0.0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    const auto cp = static_cast<std::int32_t>(2 + seed % 32);
    std::mt19937_64 random(seed);
    std::vector<Tokens> lengths(1 + seed / 32 % 5);
    for (Tokens& n : lengths) n = 2 * attention_tile * cp + static_cast<Tokens>(random() % 3000);
    const auto documents = whole_documents(lengths);
    INFO("seed " << seed << ", cp " << cp << ": " << test::print(documents));
    const ShardBalance b = balance(per_document_shards(documents, cp));
    CHECK(b.most_pairs <= 1.001 * b.mean_pairs);
    CHECK(b.least_pairs >= 0.999 * b.mean_pairs);
    worst = std::max({worst, b.max_over_mean() - 1.0, 1.0 - b.least_pairs / b.mean_pairs});
  }
  CHECK(worst < 0.0005);
}

TEST_CASE("short documents even out what they leave uneven") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const auto cp = static_cast<std::int32_t>(2 + seed % 32);
    std::mt19937_64 random(seed);
    std::vector<Tokens> lengths(300);
    for (Tokens& n : lengths) n = 1 + static_cast<Tokens>(random() % 600);
    const auto documents = whole_documents(lengths);
    INFO("seed " << seed << ", cp " << cp << ": " << test::print(documents));
    CHECK(balance(per_document_shards(documents, cp)).max_over_mean() < 1.0005);
  }
}

TEST_CASE("a document's slots have at most two chunks where it is short, and three where it is long") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto cp = static_cast<std::int32_t>(1 + seed % 33);
    const Tokens begin = static_cast<Tokens>(random() % 50), size = 1 + static_cast<Tokens>(random() % 20000);
    const DocumentCut cut({0, begin, begin + size}, cp);
    INFO("seed " << seed << ", cp " << cp << ", document " << begin << " to " << begin + size);
    std::vector<std::pair<Tokens, Tokens>> all;
    Tokens smallest = size, largest = 0;
    for (Tokens slot = 0; slot < cp; ++slot) {
      Tokens tokens = 0;
      int chunks = 0;
      double pairs = 0.0;
      cut.for_each_chunk(slot, [&](Tokens b, Tokens e) {
        all.emplace_back(b, e);
        tokens += e - b;
        for (Tokens t = b; t < e; ++t) pairs += 2.0 * static_cast<double>(t + 1);
        ++chunks;
      });
      CHECK(chunks <= (cut.is_long() ? 3 : 2));
      CHECK(cut.twice_pairs(slot) == pairs);
      CHECK(tokens == 2 * (size / (Tokens{2} * cp)) + cut.shares().of(slot));
      smallest = std::min(smallest, tokens);
      largest = std::max(largest, tokens);
    }
    CHECK(largest - smallest <= 1);
    std::sort(all.begin(), all.end());
    Tokens at = begin;
    for (const auto& [b, e] : all) {
      CHECK(b == at);
      at = e;
    }
    CHECK(at == begin + size);
  }
}

TEST_CASE("a million tokens of heavy-tailed documents over 32 ranks") {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> distribution(5.9, 1.6);
  std::vector<Tokens> lengths;
  Tokens left = 1 << 20;
  while (left > 0) {
    lengths.push_back(std::min(left, 2 + static_cast<Tokens>(distribution(random))));
    left -= lengths.back();
  }
  const auto documents = whole_documents(lengths);
  const ContextShards shards = per_document_shards(documents, 32);
  check_partition(shards, documents, 32);
  CHECK(balance(shards).max_over_mean() <= 1.0003);
  check_partition(per_sequence_shards(documents, 32), documents, 32);
}

TEST_CASE("sharding refuses what it can't shard") {
  const auto documents = whole_documents(std::vector<Tokens>{3, 4});
  CHECK_THROWS_WITH(per_document_shards(documents, 0), "cp is 0; expected a positive number of ranks");
  CHECK_THROWS_WITH(per_sequence_shards(documents, 8),
                    "cp is 8; expected at most the 7 tokens of the sequence");
  CHECK_THROWS_WITH(per_sequence_shards({}, 1), "cp is 1; expected at most the 0 tokens of the sequence");
  CHECK_THROWS_WITH(mixed_shards(documents, 2, std::vector<std::uint8_t>{1}),
                    "there are marks for 1 of 2 documents; expected one each");
  CHECK_THROWS_WITH(per_document_shards(std::vector<Slice>{{0, 0, 5}, {1, 4, 4}}, 2),
                    Catch::StartsWith("document 1 has tokens 4 to 4"));
  CHECK_THROWS_WITH(whole_documents(std::vector<Tokens>{5, 0}),
                    "document 1 has 0 tokens; expected a positive number");
  const ContextShards far = per_sequence_shards(whole_documents(std::vector<Tokens>{Tokens{1} << 32}), 2);
  CHECK_THROWS_WITH(
      token_indices<std::int32_t>(far, 0),
      "the sequence has 4294967296 tokens; expected at most 2147483647, because their indices are "
      "integers of 32 bits");
}
