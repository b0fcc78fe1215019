#include "slimpack/partition/flexible_groups.hpp"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "slimpack/partition/flexible_groups_milp.hpp"
#include "slimpack/partition/similar_lengths.hpp"
#include "tests/milp/solvers.hpp"

using namespace slimpack;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Seconds as a Ulysses group has them: attention and products shared equally, and an all-to-all that is dearer between nodes of 4.
double group_seconds(Tokens length, std::size_t size) {
  const auto tokens = static_cast<double>(length), n = static_cast<double>(size);
  return (tokens * tokens * 1e-3 + tokens) / n + tokens / n * (size == 1 ? 0.0 : size <= 4 ? 0.1 : 1.0);
}

std::vector<std::size_t> sizes_up_to(std::size_t ranks) {
  return rank_group_sizes(ranks, [](std::size_t) { return true; });
}

std::vector<SampleId> all_longest_first(const RankDomain& domain) { return detail::longest_first(domain); }

/// The least work of a busiest group, by trying all splits of the ranks and all distributions of the samples.
double exact_work(const RankDomain& domain, Tokens limit) {
  double best = infinite;
  std::vector<std::size_t> places;  // of the groups
  std::vector<double> work, tokens;
  const auto samples = all_longest_first(domain);
  const std::function<void(std::size_t, double)> assign = [&](std::size_t i, double most) {
    if (most >= best) return;
    if (i == samples.size()) {
      best = most;
      return;
    }
    for (std::size_t g = 0; g < places.size(); ++g) {
      const double w = domain.work(samples[i], places[g]), t = domain.tokens_per_rank(samples[i], places[g]);
      if (tokens[g] + t > static_cast<double>(limit)) continue;
      work[g] += w;
      tokens[g] += t;
      assign(i + 1, std::max(most, work[g]));
      work[g] -= w;
      tokens[g] -= t;
    }
  };
  const std::function<void(std::size_t, std::size_t)> split = [&](std::size_t left, std::size_t place) {
    work.assign(places.size(), 0.0);
    tokens.assign(places.size(), 0.0);
    assign(0, 0.0);
    for (std::size_t p = 0; p <= place; ++p) {
      if (domain.size(p) > left) continue;
      places.push_back(p);
      split(left - domain.size(p), p);
      places.pop_back();
    }
  };
  split(domain.ranks(), domain.sizes() - 1);
  return best;
}

struct Setting {
  explicit Setting(unsigned seed, std::size_t most_samples) {
    std::mt19937 random(seed);
    const auto pick = [&](std::size_t lo, std::size_t hi) {
      return std::uniform_int_distribution<std::size_t>(lo, hi)(random);
    };
    ranks = std::vector<std::size_t>{1, 2, 4, 8, 6}[pick(0, 4)];
    std::lognormal_distribution<double> tail(6.0, 1.2);
    lengths.resize(pick(1, most_samples));
    for (Tokens& length : lengths) length = std::clamp<Tokens>(static_cast<Tokens>(tail(random)), 1, 20000);
    const double each = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), Tokens{0})) /
                        static_cast<double>(ranks);
    limit = static_cast<Tokens>(each * std::uniform_real_distribution(0.8, 4.0)(random)) + 1;
  }
  [[nodiscard]] RankDomain domain() const { return {lengths, ranks, sizes_up_to(ranks), group_seconds}; }

  std::size_t ranks = 1;
  std::vector<Tokens> lengths;
  Tokens limit = 0;
};

}  // namespace

TEST_CASE("groups of a micro-batch hold each sample once, within ranks, limit and stated work") {
  int found = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    const Setting s(seed, 60);
    const RankDomain domain = s.domain();
    const FlexibleRow out = flexible_groups(domain, s.limit, all_longest_first(domain));
    if (out.work == infinite) {
      CHECK(out.row.empty());
      continue;
    }
    ++found;
    std::vector<SampleId> seen;
    std::size_t free = 0;
    double most = 0.0;
    for (const RankGroup& group : out.row) {
      CHECK(group.first >= free);
      CHECK(group.first % (std::has_single_bit(group.size) ? group.size : 1) == 0);
      free = group.first + group.size;
      CHECK(free <= s.ranks);
      CHECK(!group.samples.empty());
      double work = 0.0, tokens = 0.0;
      for (const SampleId id : group.samples) {
        work += group_seconds(s.lengths[id], group.size);
        tokens += static_cast<double>(s.lengths[id]) / static_cast<double>(group.size);
        seen.push_back(id);
      }
      CHECK(tokens <= static_cast<double>(s.limit) * (1 + 1e-12));
      most = std::max(most, work);
    }
    CHECK(out.work == Approx(most));
    std::sort(seen.begin(), seen.end());
    std::vector<SampleId> all(s.lengths.size());
    std::iota(all.begin(), all.end(), SampleId{0});
    CHECK(seen == all);
  }
  CHECK(found > 200);
}

TEST_CASE("on small micro-batches, the slowest group is as fast as can be") {
  int solved = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    const Setting s(seed, 7);
    const RankDomain domain = s.domain();
    const double least = exact_work(domain, s.limit);
    const FlexibleRow out = flexible_groups(domain, s.limit, all_longest_first(domain));
    CHECK(out.work >= least * (1 - 1e-9));
    if (least == infinite) continue;
    ++solved;
    CHECK(out.work <= least * (1 + 1e-9));
  }
  CHECK(solved > 80);
}

TEST_CASE("no groups have less work than the least") {
  int tight = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    const Setting s(seed, 7);
    const RankDomain domain = s.domain();
    const double bound = least_group_work(domain, s.limit, all_longest_first(domain));
    const double least = exact_work(domain, s.limit);
    CHECK(bound <= least * (1 + 1e-12));
    tight += bound >= 0.9 * least && least < infinite ? 1 : 0;
  }
  CHECK(tight > 40);
}

TEST_CASE("buckets of lengths add as few tokens as any do") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    const Setting s(seed, 9);
    const RankDomain domain = s.domain();
    const auto samples = all_longest_first(domain);
    const std::size_t n = samples.size(), count = 1 + seed % 4;
    const auto added = [&](const std::vector<std::size_t>& ends) {
      Tokens sum = 0;
      for (std::size_t q = 0, i = 0; q < ends.size(); ++q) {
        const Tokens longest = s.lengths[samples[i]];
        for (; i < ends[q]; ++i) sum += longest - s.lengths[samples[i]];
      }
      return sum;
    };
    const auto ends = length_buckets(domain, samples, count);
    REQUIRE(ends.size() == std::min(n, count));
    REQUIRE(ends.back() == n);
    Tokens least = std::numeric_limits<Tokens>::max();
    for (unsigned cuts = 0; cuts < 1U << (n - 1); ++cuts) {
      if (static_cast<std::size_t>(std::popcount(cuts)) + 1 != ends.size()) continue;
      std::vector<std::size_t> other;
      for (std::size_t i = 1; i <= n; ++i) {
        if (i == n || ((cuts >> (i - 1)) & 1U) != 0) other.push_back(i);
      }
      least = std::min(least, added(other));
    }
    CHECK(added(ends) == least);
  }
}

#ifdef SLIMPACK_TEST_GLPK
TEST_CASE("with a bucket for each sample, FlexSP's program has the least work of all groups") {
  int solved = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    const Setting s(seed, 5);
    if (s.ranks == 8) continue;
    const RankDomain domain = s.domain();
    const FlexibleGroupsModel program(domain, s.limit, all_longest_first(domain), s.lengths.size());
    const MilpResult result = test::Glpk::solve(program.model());
    const double least = exact_work(domain, s.limit);
    REQUIRE(result.has_solution() == (least < infinite));
    if (!result.has_solution()) continue;
    ++solved;
    const FlexibleRow row = program.decode(result.values);
    CHECK(row.work == Approx(least));
    CHECK(program.scale() * result.objective == Approx(least));
  }
  CHECK(solved > 20);
}

TEST_CASE("no row of FlexSP's own program is faster") {
  int solved = 0, faster = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    const Setting s(seed, 50);
    if (s.lengths.size() < 12) continue;
    const RankDomain domain = s.domain();
    const auto samples = all_longest_first(domain);
    const FlexibleRow own = flexible_groups(domain, s.limit, samples);
    const FlexibleGroupsModel program(domain, s.limit, samples, 8);
    const MilpResult result = test::Glpk::solve(program.model(), {.time_limit_seconds = 0.1});
    if (!result.has_solution()) continue;
    ++solved;
    const FlexibleRow theirs = program.decode(result.values);
    CHECK(own.work <= theirs.work * (1 + 1e-9));
    faster += own.work < 0.99 * theirs.work ? 1 : 0;
  }
  CHECK(solved > 20);
  CHECK(faster > 10);
}
#endif

TEST_CASE("parts of a sorted row are as light as can be") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::vector<double> weights(1 + random() % 9);
    for (double& weight : weights) weight = static_cast<double>(random() % 50);
    const std::size_t parts = 1 + random() % 5;
    const auto heaviest = [&](const std::vector<std::size_t>& ends) {
      double most = 0.0;
      std::size_t begin = 0;
      for (const std::size_t end : ends) {
        most = std::max(most, std::accumulate(weights.begin() + static_cast<std::ptrdiff_t>(begin),
                                              weights.begin() + static_cast<std::ptrdiff_t>(end), 0.0));
        begin = end;
      }
      return most;
    };
    double least = infinite;
    for (unsigned cuts = 0; cuts < (1u << (weights.size() - 1)); ++cuts) {
      if (static_cast<std::size_t>(std::popcount(cuts)) + 1 > parts) continue;
      std::vector<std::size_t> ends;
      for (std::size_t i = 1; i < weights.size(); ++i) {
        if ((cuts >> (i - 1) & 1u) != 0) ends.push_back(i);
      }
      ends.push_back(weights.size());
      least = std::min(least, heaviest(ends));
    }
    const std::vector<std::size_t> ends = lightest_parts(RowCuts(weights), parts);
    CHECK(ends.size() <= parts);
    CHECK(ends.back() == weights.size());
    CHECK(heaviest(ends) == Approx(least).epsilon(1e-9));
    const std::vector<std::size_t> back = lightest_parts_last_full(RowCuts(weights), parts);
    CHECK(back.size() <= parts);
    CHECK(back.back() == weights.size());
    CHECK(heaviest(back) == Approx(least).epsilon(1e-9));
    if (back.size() > 1) {  // one item more, and the last part would be the heaviest
      const auto begin = weights.begin() + static_cast<std::ptrdiff_t>(back[back.size() - 2]);
      CHECK(std::accumulate(begin - 1, weights.end(), 0.0) > least);
    }
  }
}
