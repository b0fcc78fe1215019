#include "slimpack/partition/hybrid_rank_rows.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

using namespace slimpack;

namespace {

constexpr std::array all_hybrid_kinds{HybridKind::ranks, HybridKind::packs, HybridKind::rows,
                                      HybridKind::squared_rows};

/// Attention and products, shared equally.
double shared_work(Tokens length, std::size_t size) {
  const auto tokens = static_cast<double>(length);
  return (tokens * tokens * 1e-3 + tokens) / static_cast<double>(size);
}

/// Some samples, and the sizes of groups of at least `least` ranks.
struct HybridRowsCase {
  std::vector<Tokens> lengths;
  std::size_t ranks = 1, least = 1;
  std::vector<std::size_t> sizes, row_sizes;

  [[nodiscard]] HybridRankRows rows() const { return {lengths, ranks, sizes, row_sizes, shared_work}; }
};

HybridRowsCase hybrid_rows_case(unsigned seed) {
  std::mt19937 random(seed);
  HybridRowsCase c;
  std::lognormal_distribution<double> draw(4.0, 1.3);
  c.lengths.resize(1 + random() % 40);
  for (Tokens& length : c.lengths) length = std::clamp<Tokens>(static_cast<Tokens>(draw(random)), 1, 4000);
  c.ranks = 1 + random() % 12;
  c.least = c.ranks % 2 == 0 && random() % 2 == 0 ? 2 : 1;
  const auto allows = [&](std::size_t size) { return size >= c.least; };
  c.sizes = hybrid_group_sizes(c.ranks, allows);
  c.row_sizes = rank_group_sizes(c.ranks, allows);
  return c;
}

}  // namespace

TEST_CASE(
    "each kind of hybrid packs holds each sample once, on groups of its sizes, within the limit of tokens") {
  int rows_of_several = 0, odd = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    const HybridRowsCase c = hybrid_rows_case(seed);
    const HybridRankRows rows = c.rows();
    for (const Tokens more : {0, 100, 2000}) {
      const Tokens limit = rows.domain().least_limit() + more;
      for (const HybridKind kind : all_hybrid_kinds) {
        INFO(hybrid_kind_name(kind) << ", limit " << limit);
        const bool in_rows = kind == HybridKind::rows || kind == HybridKind::squared_rows;
        const std::vector<std::size_t>& sizes = in_rows ? c.row_sizes : c.sizes;
        std::vector<int> seen(c.lengths.size(), 0);
        for (const RankRow& row : rows(kind, {.tokens = limit})) {
          if (!in_rows) CHECK(row.size() == 1);
          rows_of_several += row.size() > 1 ? 1 : 0;
          std::size_t free = 0;
          for (const RankGroup& group : row) {
            CHECK(group.first >= free);
            free = group.first + group.size;
            double tokens = 0.0;
            for (const SampleId id : group.samples) {
              ++seen[id];
              tokens += static_cast<double>(c.lengths[id]) / static_cast<double>(group.size);
            }
            CHECK(tokens <= static_cast<double>(limit) * (1.0 + 1e-12));
            // At the end of a row, ranks without work join its groups.
            if (!in_rows) CHECK(std::find(sizes.begin(), sizes.end(), group.size) != sizes.end());
            CHECK(group.size >= c.least);
            odd += group.size == 3 || group.size == 5 ? 1 : 0;
          }
          CHECK(free <= c.ranks);
        }
        CHECK(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
      }
    }
  }
  CHECK(rows_of_several > 200);
  CHECK(odd > 100);
}

TEST_CASE("the least limit of hybrid packs is the least with which all samples find a group") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    const HybridRowsCase c = hybrid_rows_case(seed);
    const HybridRankRows rows = c.rows();
    for (const HybridKind kind : all_hybrid_kinds) {
      CHECK_NOTHROW(rows(kind, {.tokens = rows.domain().least_limit()}));
      CHECK_THROWS_AS(rows(kind, {.tokens = rows.domain().least_limit() - 1}), InvalidInput);
    }
  }
}

TEST_CASE("hybrid packs of squared tokens do not depend on the work, and their mean is the given one's") {
  int by_work = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    const HybridRowsCase c = hybrid_rows_case(seed);
    const HybridRankRows given = c.rows();
    const auto linear = [](Tokens length, std::size_t size) {
      return static_cast<double>(length) / static_cast<double>(size);
    };
    const HybridRankRows other(c.lengths, c.ranks, c.sizes, c.row_sizes, linear);
    double tokens = 0.0;
    for (const Tokens length : c.lengths) tokens += static_cast<double>(length);
    CHECK(other.mean_work() == Approx(tokens / static_cast<double>(c.ranks)));
    const HybridLimits limits{.tokens = 2 * given.domain().least_limit()};
    CHECK(given(HybridKind::squared_rows, limits) == other(HybridKind::squared_rows, limits));
    by_work += given(HybridKind::rows, limits) != other(HybridKind::rows, limits) ? 1 : 0;
  }
  CHECK(by_work > 20);
}

TEST_CASE("balanced ranks end sooner than balanced packs, and no pack has more work than its limit") {
  const std::size_t ranks = 8;
  double ends_by_ranks = 0.0, ends_by_packs = 0.0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    HybridRowsCase c = hybrid_rows_case(seed);
    c.ranks = ranks;
    c.sizes = c.row_sizes = {1};
    const HybridRankRows rows = c.rows();
    const Tokens limit = 2 * rows.domain().least_limit();
    const auto end = [&](HybridKind kind) {
      std::vector<double> work(ranks, 0.0);
      for (const RankRow& row : rows(kind, {.tokens = limit})) {
        for (const SampleId id : row.front().samples)
          work[row.front().first] += shared_work(c.lengths[id], 1);
      }
      return *std::max_element(work.begin(), work.end());
    };
    const auto longest_pack = [&](double work) {
      double most = 0.0;
      for (const RankRow& row : rows(HybridKind::packs, {.tokens = limit, .work = work})) {
        double own = 0.0;
        for (const SampleId id : row.front().samples) own += shared_work(c.lengths[id], 1);
        most = std::max(most, own);
      }
      return most;
    };
    const double alone = shared_work(*std::max_element(c.lengths.begin(), c.lengths.end()), 1);
    CHECK(longest_pack(alone) <= alone * (1.0 + 1e-9));
    ends_by_ranks += end(HybridKind::ranks);
    ends_by_packs += end(HybridKind::packs);
  }
  CHECK(ends_by_ranks < ends_by_packs);
}
