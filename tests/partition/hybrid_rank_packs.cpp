#include "slimpack/partition/hybrid_rank_packs.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

using namespace slimpack;

namespace {

/// Attention and products shared equally, and some communication that grows with the group.
double hybrid_seconds(Tokens length, std::size_t size) {
  const auto tokens = static_cast<double>(length), n = static_cast<double>(size);
  return (tokens * tokens * 1e-3 + tokens) / n + 0.02 * tokens * (n - 1.0) / n;
}

std::vector<Tokens> hybrid_lengths(std::mt19937& random, std::size_t most) {
  std::lognormal_distribution<double> draw(4.0, 1.3);
  std::vector<Tokens> lengths(1 + random() % most);
  for (Tokens& length : lengths) length = std::clamp<Tokens>(static_cast<Tokens>(draw(random)), 1, 4000);
  return lengths;
}

RankDomain hybrid_domain(std::span<const Tokens> lengths, std::size_t ranks) {
  return {lengths, ranks, hybrid_group_sizes(ranks, [](std::size_t) { return true; }), hybrid_seconds};
}

/// When the last rank is done, if each pack begins when all its ranks are free.
double end_of(const RankDomain& domain, const std::vector<RankRow>& packs) {
  std::vector<double> free(domain.ranks(), 0.0);
  for (const RankRow& row : packs) {
    for (const RankGroup& pack : row) {
      double start = 0.0, seconds = 0.0;
      for (std::size_t r = pack.first; r < pack.first + pack.size; ++r) start = std::max(start, free[r]);
      for (const SampleId id : pack.samples) seconds += hybrid_seconds(domain.length(id), pack.size);
      for (std::size_t r = pack.first; r < pack.first + pack.size; ++r) free[r] = start + seconds;
    }
  }
  return *std::max_element(free.begin(), free.end());
}

/// The earliest end of all orders and places of samples on groups of given sizes.
double earliest_end(const RankDomain& domain, const std::vector<std::size_t>& size_of) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<char> placed(domain.samples(), 0);
  const std::function<void(std::vector<double>, std::size_t)> place = [&](const std::vector<double>& free,
                                                                          std::size_t left) {
    const double end = *std::max_element(free.begin(), free.end());
    if (end >= best) return;
    if (left == 0) {
      best = end;
      return;
    }
    for (SampleId id = 0; id < domain.samples(); ++id) {
      if (placed[id] != 0) continue;
      placed[id] = 1;
      for (std::size_t first = 0; first + size_of[id] <= domain.ranks(); ++first) {
        std::vector<double> next = free;
        const auto begin = next.begin() + static_cast<std::ptrdiff_t>(first);
        const auto last = begin + static_cast<std::ptrdiff_t>(size_of[id]);
        std::fill(begin, last,
                  *std::max_element(begin, last) + hybrid_seconds(domain.length(id), size_of[id]));
        place(next, left - 1);
      }
      placed[id] = 0;
    }
  };
  place(std::vector<double>(domain.ranks(), 0.0), domain.samples());
  return best;
}

}  // namespace

TEST_CASE("groups of any size: all small ones, and larger ones at most a sixteenth apart") {
  for (const std::size_t ranks : {1u, 2u, 7u, 32u, 33u, 100u, 1024u}) {
    const auto sizes = hybrid_group_sizes(ranks, [](std::size_t) { return true; });
    CHECK(sizes.front() == 1);
    CHECK(sizes.back() == ranks);
    for (std::size_t i = 1; i < sizes.size(); ++i) {
      CHECK(sizes[i] > sizes[i - 1]);
      CHECK(sizes[i] - sizes[i - 1] <= std::max<std::size_t>(1, sizes[i - 1] / 16));
    }
  }
  CHECK(hybrid_group_sizes(8, [](std::size_t size) { return size != 3 && size != 8; }) ==
        std::vector<std::size_t>{1, 2, 4, 5, 6, 7});
}

TEST_CASE("hybrid packs hold each sample once, on the fewest ranks, within the limits") {
  int odd = 0, packed = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::vector<Tokens> lengths = hybrid_lengths(random, 60);
    const std::size_t ranks = 1 + random() % 12;
    const RankDomain domain = hybrid_domain(lengths, ranks);
    const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
    const auto n = static_cast<Tokens>(ranks);
    HybridLimits limits{.tokens = (longest + n - 1) / n + static_cast<Tokens>(random() % 500)};
    if (random() % 2 == 0) limits.work = 20.0 * static_cast<double>(1 + random() % 40);
    for (const HybridBalance balance : {HybridBalance::ranks, HybridBalance::packs}) {
      std::vector<int> seen(lengths.size(), 0);
      for (const RankRow& row : hybrid_rank_packs(domain, limits, balance)) {
        REQUIRE(row.size() == 1);
        const RankGroup& pack = row.front();
        REQUIRE(pack.first + pack.size <= ranks);
        REQUIRE(!pack.samples.empty());
        double tokens = 0.0;
        for (const SampleId id : pack.samples) {
          ++seen[id];
          tokens += static_cast<double>(lengths[id]) / static_cast<double>(pack.size);
          // One rank fewer would hold too much, or take too long.
          if (pack.size == 1) continue;
          const double held = static_cast<double>(lengths[id]) / static_cast<double>(pack.size - 1);
          CHECK((held > static_cast<double>(limits.tokens) ||
                 hybrid_seconds(lengths[id], pack.size - 1) > limits.work));
        }
        CHECK(tokens <= static_cast<double>(limits.tokens) * (1.0 + 1e-12));
        if (pack.size > 1) CHECK(pack.samples.size() == 1);
        odd += pack.size == 3 || pack.size == 5 || pack.size == 6 || pack.size == 7 ? 1 : 0;
        packed += pack.samples.size() > 1 ? 1 : 0;
      }
      CHECK(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
    }
  }
  CHECK(odd > 200);
  CHECK(packed > 200);
}

TEST_CASE("hybrid packs end hardly later than the best of all places and orders") {
  double sum = 0.0, worst = 0.0;
  int cases = 0;
  for (unsigned seed = 1; seed <= 120; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::vector<Tokens> lengths = hybrid_lengths(random, 5);
    const RankDomain domain = hybrid_domain(lengths, 2 + random() % 3);
    const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
    const HybridLimits limits{.tokens = std::max<Tokens>(1, longest / 2 + 1)};
    const auto packs = hybrid_rank_packs(domain, limits, HybridBalance::ranks);
    std::vector<std::size_t> size_of(lengths.size());
    for (const RankRow& row : packs) {
      for (const SampleId id : row.front().samples) size_of[id] = row.front().size;
    }
    const double exact = earliest_end(domain, size_of), found = end_of(domain, packs);
    CHECK(found >= exact * (1.0 - 1e-12));
    CHECK(found <= 1.5 * exact);
    sum += found / exact;
    worst = std::max(worst, found / exact);
    ++cases;
  }
  INFO("mean " << sum / cases << ", worst " << worst);
  CHECK(sum / cases <= 1.03);
}

TEST_CASE("a limit on the work of packs makes them shorter") {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::vector<Tokens> lengths = hybrid_lengths(random, 60);
    lengths.push_back(3000);
    const RankDomain domain = hybrid_domain(lengths, 8);
    const auto longest_pack = [&](double work) {
      double most = 0.0;
      for (const RankRow& row :
           hybrid_rank_packs(domain, {.tokens = 4000, .work = work}, HybridBalance::packs)) {
        double own = 0.0;
        for (const SampleId id : row.front().samples) own += hybrid_seconds(lengths[id], row.front().size);
        most = std::max(most, own);
      }
      return most;
    };
    CHECK(longest_pack(3000.0) <= 3000.0 * (1.0 + 1e-9));
    CHECK(longest_pack(std::numeric_limits<double>::infinity()) > 3000.0);
  }
}

TEST_CASE("a sample that the largest group can't hold is refused") {
  const std::vector<Tokens> lengths{10, 900};
  const RankDomain domain = hybrid_domain(lengths, 4);
  CHECK_THROWS_WITH(
      hybrid_rank_packs(domain, {.tokens = 100}, HybridBalance::ranks),
      Catch::Contains("sample 1 has 900 tokens; expected at most the limit of 100 on each of 4"));
}
