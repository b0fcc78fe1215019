#include "slimpack/slicing/chunks.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "slimpack/slicing/chunk_balance.hpp"
#include "slimpack/slicing/chunk_sequences.hpp"
#include "slimpack/slicing/chunk_ways.hpp"
#include "tests/schedule/random_rows.hpp"

using namespace slimpack;

namespace {

/// A batch: heavy tails, all equal, one sample, or one that is longer than all others together.
std::vector<Tokens> random_batch(std::mt19937& random) {
  const auto pick = [&](Tokens lo, Tokens hi) {
    return std::uniform_int_distribution<Tokens>(lo, hi)(random);
  };
  const auto samples = static_cast<std::size_t>(pick(1, 40));
  std::vector<Tokens> lengths(samples, pick(1, 300));
  const Tokens kind = pick(0, 3);
  if (kind == 0) lengths.resize(1);
  for (Tokens& n : lengths) {
    if (kind >= 2)
      n = 1 + static_cast<Tokens>(std::exp(std::uniform_real_distribution<double>(0, 6)(random)));
  }
  if (kind == 3) lengths.back() = std::accumulate(lengths.begin(), lengths.end(), Tokens{1});
  return lengths;
}

std::vector<SampleId> all_of(const std::vector<Tokens>& lengths) {
  std::vector<SampleId> ids(lengths.size());
  std::iota(ids.begin(), ids.end(), SampleId{0});
  return ids;
}

/// Slices of a sample take as much as the sample.
struct AdditiveCost {
  double rise = 0.0;  ///< seconds of a token for each token before it

  [[nodiscard]] static std::size_t stages() { return 2; }
  [[nodiscard]] double slice_seconds(std::size_t, Tokens begin, Tokens end, Pass) const {
    const auto b = static_cast<double>(begin), e = static_cast<double>(end);
    return e - b + 0.5 * rise * (e * e - b * b);
  }
  [[nodiscard]] static double pack_seconds(std::size_t, Pass) { return 0.5; }
  [[nodiscard]] static double transfer_seconds(std::size_t, Tokens, Pass) { return 0.1; }
};

/// A batch, what its slices take, and a number of slices into which its longest sample can be cut.
struct ChunkCase {
  ChunkCase(unsigned seed, std::size_t stages, Tokens most_slices)
      : ChunkCase(std::mt19937(seed), stages, most_slices) {}

  std::vector<Tokens> lengths;
  std::vector<SampleId> ids;
  Prices prices;
  SlicePrices backward;
  std::size_t slices;

 private:
  ChunkCase(std::mt19937 random, std::size_t stages, Tokens most_slices)
      : lengths(random_batch(random)),
        ids(all_of(lengths)),
        prices(oracle::random_cost(random, stages)),
        backward(prices, Pass::backward),
        slices(static_cast<std::size_t>(std::uniform_int_distribution<Tokens>(
            1, std::min(most_slices, *std::max_element(lengths.begin(), lengths.end())))(random))) {}
};

double seconds_of(const SlicePrices& prices, std::span<const Slice> chunk) {
  double sum = 0.0;
  for (const Slice& slice : chunk) sum += prices(slice.begin, slice.end);
  return sum;
}

double most_seconds(const SlicePrices& prices, const Chunks& chunks) {
  double most = 0.0;
  for (std::size_t k = 0; k < chunks.packs.size(); ++k)
    most = std::max(most, seconds_of(prices, chunks.packs[k]));
  return most;
}

/// The slices of cut samples, in token order.
std::vector<Slice> parts_of(const Chunks& chunks, const std::vector<Tokens>& lengths) {
  std::vector<Slice> parts;
  for (const Slice& slice : chunks.packs.slices()) {
    if (slice.size() < lengths[slice.sample]) parts.push_back(slice);
  }
  std::sort(parts.begin(), parts.end(), [](const Slice& a, const Slice& b) {
    return std::pair(a.sample, a.begin) < std::pair(b.sample, b.begin);
  });
  return parts;
}

/// Each token is in one chunk, in token order; no chunk ends two cut samples or holds a middle slice of one with anything else.
void check_chunks(const Chunks& chunks, const std::vector<Tokens>& lengths) {
  std::vector<Tokens> next(lengths.size(), 0);
  for (std::size_t k = 0; k < chunks.packs.size(); ++k) {
    INFO("chunk " << k);
    std::size_t cut = 0, middle = 0;
    for (const Slice& slice : chunks.packs[k]) {
      CHECK(slice.begin == next[slice.sample]);
      CHECK(slice.end > slice.begin);
      next[slice.sample] = slice.end;
      cut += slice.size() < lengths[slice.sample] ? 1 : 0;
      middle += slice.end < lengths[slice.sample] ? 1 : 0;
    }
    CHECK(cut <= 1);
    CHECK((middle == 0 || chunks.packs[k].size() == 1));
    const ChunkKind kind = cut == 0                      ? ChunkKind::batched
                           : chunks.packs[k].size() == 1 ? ChunkKind::split
                                                         : ChunkKind::hybrid;
    CHECK(chunks.kinds[k] == kind);
  }
  CHECK(next == lengths);
}

/// The buckets of Algorithm 1 as the paper writes it, line by line.
std::vector<std::vector<Slice>> algorithm_1(const std::vector<Tokens>& lengths, const SlicePrices& prices,
                                            const ChunkLimits& limits) {
  std::vector<std::vector<Slice>> buckets;
  std::vector<Slice> short_seqs;
  for (SampleId id = 0; id < lengths.size(); ++id) {
    if (lengths[id] <= limits.mesh.front()) {
      short_seqs.push_back({id, 0, lengths[id]});
      continue;
    }
    Tokens begin = 0;
    for (std::size_t i = 0; lengths[id] - begin > limits.mesh[i]; ++i) begin += limits.mesh[i];
    buckets.push_back({{id, begin, lengths[id]}});
  }
  std::stable_sort(short_seqs.begin(), short_seqs.end(),
                   [&](const Slice& a, const Slice& b) { return prices(0, a.end) > prices(0, b.end); });
  double most_seconds = limits.seconds;
  const auto room = [&](const std::vector<Slice>& bucket, const Slice& sample) {
    return count_tokens(bucket) + sample.size() <= limits.tokens;
  };
  for (const Slice& sample : short_seqs) {
    const double seconds = prices(0, sample.end);
    std::vector<std::size_t> order;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      if (room(buckets[b], sample)) order.push_back(b);
    }
    if (order.empty()) {
      buckets.push_back({sample});
      continue;
    }
    const auto rate = [&](std::size_t b) {
      return seconds_of(prices, buckets[b]) / static_cast<double>(count_tokens(buckets[b]));
    };
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return rate(a) < rate(b); });
    const auto fits = [&](std::size_t b) { return seconds_of(prices, buckets[b]) + seconds <= most_seconds; };
    auto chosen = std::find_if(order.begin(), order.end(), fits);
    if (chosen == order.end()) {
      chosen = std::min_element(order.begin(), order.end(), [&](auto a, auto b) {
        return seconds_of(prices, buckets[a]) < seconds_of(prices, buckets[b]);
      });
      most_seconds = seconds_of(prices, buckets[*chosen]) + seconds;
    }
    buckets[*chosen].push_back(sample);
  }
  return buckets;
}

}  // namespace

TEST_CASE("chunks hold each token once, in order, within the limit of tokens") {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    const auto& [lengths, ids, prices, backward, slices] = ChunkCase(seed, 2, 12);
    const ChunkLimits limits = balanced_limits(lengths, ids, backward, slices);
    const Chunks balanced = balanced_chunks(lengths, ids, backward, slices);
    check_chunks(balanced, lengths);
    for (std::size_t k = 0; k < balanced.packs.size(); ++k)
      CHECK(count_tokens(balanced.packs[k]) <= limits.tokens);
    const Chunks even = even_chunks(lengths, ids, backward, limits.tokens);
    check_chunks(even, lengths);
    for (std::size_t k = 0; k < even.packs.size(); ++k) {
      CHECK(count_tokens(even.packs[k]) <= limits.tokens);
      const Slice& last = even.packs[k].front();
      if (last.end < lengths[last.sample]) CHECK(last.size() == limits.tokens);
    }
    const Chunks lone = lone_chunks(lengths, ids, backward, slices);
    check_chunks(lone, lengths);
    const Ragged<PackId> sequences = chunk_sequences(lone.packs, lengths);
    CHECK(sequences.size() == lengths.size());
    for (std::size_t q = 0; q < sequences.size(); ++q)
      CHECK(sequences[q].size() == std::min(slices, static_cast<std::size_t>(lengths[q])));
  }
}

TEST_CASE("chunks are those of Algorithm 1, step by step") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    const auto& [lengths, ids, prices, backward, slices] = ChunkCase(seed, 1, 6);
    const ChunkLimits limits = balanced_limits(lengths, ids, backward, slices);
    const Chunks chunks = balanced_chunks(lengths, ids, backward, slices);
    std::vector<std::vector<Slice>> found;
    for (std::size_t k = 0; k < chunks.packs.size(); ++k) {
      if (chunks.packs[k].front().end == lengths[chunks.packs[k].front().sample])
        found.emplace_back(chunks.packs[k].begin(), chunks.packs[k].end());
    }
    CHECK(found == algorithm_1(lengths, backward, limits));
  }
}

TEST_CASE("level chunks have the mesh of balanced ones, and no longer a chunk than samples and slices need") {
  int faster = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    const auto& [lengths, ids, prices, backward, slices] = ChunkCase(seed, 1, 6);
    const ChunkLimits limits = balanced_limits(lengths, ids, backward, slices);
    const Chunks balanced = balanced_chunks(lengths, ids, backward, slices);
    const Chunks limited = level_chunks(lengths, ids, backward, limits, true);
    const Chunks unlimited = level_chunks(lengths, ids, backward, limits, false);
    for (const Chunks* chunks : {&limited, &unlimited}) {
      check_chunks(*chunks, lengths);
      CHECK(parts_of(*chunks, lengths) == parts_of(balanced, lengths));
    }
    for (std::size_t k = 0; k < limited.packs.size(); ++k)
      CHECK(count_tokens(limited.packs[k]) <= limits.tokens);
    // List scheduling: the fullest chunk was the lightest when it got its last sample.
    double all = 0.0, last = 0.0;
    for (std::size_t k = 0; k < unlimited.packs.size(); ++k) {
      all += seconds_of(backward, unlimited.packs[k]);
      for (const Slice& slice : unlimited.packs[k]) last = std::max(last, backward(slice.begin, slice.end));
    }
    std::size_t open = 0;  // chunks that take whole samples
    for (std::size_t k = 0; k < unlimited.packs.size(); ++k) {
      const Slice& first = unlimited.packs[k].front();
      open += first.end == lengths[first.sample] ? 1 : 0;
    }
    CHECK(most_seconds(backward, unlimited) <= (all / static_cast<double>(open) + last) * (1 + 1e-12));
    faster += most_seconds(backward, unlimited) < most_seconds(backward, balanced) * (1 - 1e-9) ? 1 : 0;
  }
  CHECK(faster > 20);
}

TEST_CASE("even slices are the fewest tiles with which so many hold a sample") {
  for (Tokens length = 1; length <= 40; ++length) {
    for (Tokens tile = 1; tile <= 7; ++tile) {
      for (Tokens slices = 1; slices <= 9; ++slices) {
        INFO(length << " tokens, tile " << tile << ", " << slices << " slices");
        Tokens least = tile;
        while (least * slices < length) least += tile;
        CHECK(even_slice(length, static_cast<std::size_t>(slices), tile) == least);
      }
    }
  }
}

TEST_CASE("sequences are the chunks of a sample, or single chunks of whole samples") {
  const std::vector<Tokens> lengths{10, 30, 5};
  Packs chunks;
  chunks.repeat_row(1, std::vector<Slice>{{1, 0, 12}});
  chunks.repeat_row(1, std::vector<Slice>{{0, 0, 10}});
  chunks.repeat_row(1, std::vector<Slice>{{1, 12, 24}});
  chunks.repeat_row(1, std::vector<Slice>{{1, 24, 30}, {2, 0, 5}});
  const Ragged<PackId> sequences = chunk_sequences(chunks, lengths);
  REQUIRE(sequences.size() == 2);
  CHECK(std::ranges::equal(sequences[0], std::vector<PackId>{0, 2, 3}));
  CHECK(std::ranges::equal(sequences[1], std::vector<PackId>{1}));
}

TEST_CASE("a mesh needs slices within the limit of tokens") {
  const std::vector<Tokens> lengths{10};
  const std::vector<SampleId> ids{0};
  std::mt19937 random(1);
  const Prices prices(oracle::random_cost(random, 1));
  const SlicePrices backward(prices, Pass::backward);
  CHECK_THROWS_WITH(pack_chunks(lengths, ids, backward, {.mesh = {}, .tokens = 5}, ChunkChoice::fullest),
                    Catch::Contains("has no slices"));
  CHECK_THROWS_WITH(pack_chunks(lengths, ids, backward, {.mesh = {4, 9}, .tokens = 5}, ChunkChoice::fullest),
                    Catch::Contains("slice 1 of the mesh has 9 tokens; expected 1 to the limit of 5"));
}

TEST_CASE("no mesh and no packing balances chunks better than the bound") {
  double closest = 1e300;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto pick = [&](Tokens low, Tokens high) {
      return std::uniform_int_distribution<Tokens>(low, high)(random);
    };
    const std::vector<Tokens> lengths = random_batch(random);
    const std::vector<SampleId> ids = all_of(lengths);
    const Prices prices(AdditiveCost{0.0001 * static_cast<double>(pick(1, 200))});
    const SlicePrices backward(prices, Pass::backward);
    const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
    const Tokens tile = pick(1, std::max<Tokens>(1, longest / 8));
    const Tokens tiles = (longest - 1) / tile + 1;
    const auto slices = static_cast<std::size_t>(pick(1, std::min<Tokens>(tiles, 5)));
    std::vector<Tokens> ends{0};
    for (std::size_t i = 1; i < slices; ++i) {  // any mesh of so many slices
      const Tokens left = static_cast<Tokens>(slices - i);
      ends.push_back(tile * pick(ends.back() / tile + 1, tiles - left));
    }
    ends.push_back(longest);
    ChunkLimits limits;
    for (std::size_t i = 1; i < ends.size(); ++i) {
      limits.mesh.push_back(ends[i] - ends[i - 1]);
      limits.tokens = std::max(limits.tokens, limits.mesh.back());
    }
    limits.tokens += pick(0, 2) * limits.tokens;
    const ChunkChoice choices[] = {ChunkChoice::lightest, ChunkChoice::fullest, ChunkChoice::shortest};
    if (pick(0, 1) == 0) limits.seconds = backward(0, longest) / static_cast<double>(slices);
    const Chunks chunks = pack_chunks(lengths, ids, backward, limits,
                                      choices[limits.seconds < 1e300 ? pick(0, 2) : pick(0, 1)]);
    std::vector<double> seconds, tokens;
    for (std::size_t k = 0; k < chunks.packs.size(); ++k) {
      seconds.push_back(seconds_of(backward, chunks.packs[k]));
      tokens.push_back(static_cast<double>(count_tokens(chunks.packs[k])));
    }
    const auto variance = [](const std::vector<double>& values) {
      const auto n = static_cast<double>(values.size());
      const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
      double sum = 0.0;
      for (const double value : values) sum += (value / mean - 1.0) * (value / mean - 1.0);
      return sum / n;
    };
    const ChunkDeviations asked{0.05 * static_cast<double>(pick(1, 5)), 0.05};
    const double found = variance(seconds) / (asked.seconds * asked.seconds) +
                         variance(tokens) / (asked.tokens * asked.tokens);
    const double least = least_chunk_deviation(lengths, backward, slices, chunks.packs.size(), asked, tile);
    CHECK(least <= found * (1.0 + 1e-9) + 1e-9);
    if (found > 1e-6) closest = std::min(closest, found - least);
  }
  CHECK(closest < 1.0);  // it is not far off for some
}
