#include "slimpack/partition/flexible_micro_batches.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <vector>

using namespace slimpack;

namespace {

constexpr double unlimited_work = std::numeric_limits<double>::infinity();
constexpr MicroBatchCut all_cuts[] = {MicroBatchCut::tokens, MicroBatchCut::tokens_last_full,
                                      MicroBatchCut::work};

double shared_seconds(Tokens length, std::size_t size) {
  const auto tokens = static_cast<double>(length), n = static_cast<double>(size);
  return (tokens + 1e-3 * tokens * tokens) / n * (size == 1 ? 1.0 : 1.1);
}

/// Samples, ranks, and limits that the largest group keeps, falling.
struct MicroBatchCase {
  explicit MicroBatchCase(unsigned seed) {
    std::mt19937 random(seed);
    ranks = std::vector<std::size_t>{1, 2, 4, 8, 6}[random() % 5];
    lengths.resize(1 + random() % 24);
    for (Tokens& length : lengths)
      length = 1 + static_cast<Tokens>(std::lognormal_distribution(6.0, 1.2)(random));
    constant = static_cast<double>(random() % 3) * 50.0;
    for (int i = 0; i < 4; ++i)
      limits.push_back(static_cast<Tokens>(static_cast<double>(domain().least_limit()) *
                                           std::uniform_real_distribution(1.0, 5.0)(random)));
    std::sort(limits.rbegin(), limits.rend());
  }
  [[nodiscard]] RankDomain domain() const {
    return {lengths, ranks, rank_group_sizes(ranks, [](std::size_t) { return true; }), shared_seconds};
  }
  std::size_t ranks = 1;
  std::vector<Tokens> lengths;
  double constant = 0.0;
  std::vector<Tokens> limits;
};

}  // namespace

TEST_CASE("micro-batches of similar lengths hold each sample once, within limit and stated work") {
  int held = 0, refused = 0;
  for (unsigned seed = 1; seed <= 80; ++seed) {
    INFO("seed " << seed);
    const MicroBatchCase c(seed);
    const RankDomain domain = c.domain();
    FlexibleMicroBatches make(domain, c.constant, 8);
    for (const Tokens limit : c.limits) {
      make.use_limit(limit);
      for (std::size_t count = 1; count <= std::min<std::size_t>(4, c.lengths.size()); ++count) {
        for (const MicroBatchCut cut : all_cuts) {
          INFO("limit " << limit << ", " << count << " micro-batches, cut " << int(cut));
          const FlexibleMicroBatches::Made made = make(count, cut, unlimited_work);
          CHECK(made.held == !made.rows.empty());
          CHECK(made.ids.size() == made.rows.size());
          if (!made.held) {
            CHECK(made.work == unlimited_work);
            ++refused;
            continue;
          }
          ++held;
          CHECK(made.rows.size() <= count);
          std::vector<SampleId> seen;
          Tokens shortest_before = std::numeric_limits<Tokens>::max();
          double work = 0.0;
          for (const RankRow& row : made.rows) {
            double busiest = 0.0;
            Tokens longest = 0, shortest = std::numeric_limits<Tokens>::max();
            for (const RankGroup& group : row) {
              double own = 0.0;
              Tokens tokens = 0;
              for (const SampleId id : group.samples) {
                own += shared_seconds(c.lengths[id], group.size);
                tokens += c.lengths[id];
                longest = std::max(longest, c.lengths[id]);
                shortest = std::min(shortest, c.lengths[id]);
                seen.push_back(id);
              }
              CHECK(tokens <= limit * static_cast<Tokens>(group.size));
              busiest = std::max(busiest, own);
            }
            CHECK(longest <= shortest_before);
            shortest_before = shortest;
            work += busiest + c.constant;
          }
          CHECK(made.work == Approx(work));
          std::sort(seen.begin(), seen.end());
          std::vector<SampleId> all(c.lengths.size());
          std::iota(all.begin(), all.end(), SampleId{0});
          CHECK(seen == all);
        }
      }
    }
  }
  CHECK(held > 500);
  CHECK(refused > 20);
}

TEST_CASE("micro-batches are given up only if they have as much work as is said") {
  int given_up = 0, made_all = 0;
  for (unsigned seed = 1; seed <= 80; ++seed) {
    INFO("seed " << seed);
    const MicroBatchCase c(seed);
    const RankDomain domain = c.domain();
    std::mt19937 random(seed);
    for (const MicroBatchCut cut : all_cuts) {
      FlexibleMicroBatches make(domain, c.constant, 8), bounded(domain, c.constant, 8);
      make.use_limit(c.limits.front());
      bounded.use_limit(c.limits.front());
      const std::size_t count = 1 + random() % 4;
      const FlexibleMicroBatches::Made all = make(count, cut, unlimited_work);
      if (!all.held) continue;
      const double most = all.work * std::uniform_real_distribution(0.5, 1.5)(random);
      const FlexibleMicroBatches::Made some = bounded(count, cut, most);
      CHECK(some.held);
      if (some.rows.empty()) {
        CHECK(some.work == unlimited_work);
        CHECK(all.work >= most * (1 - 1e-12));
        ++given_up;
      } else {
        CHECK(some.rows == all.rows);
        CHECK(some.work == all.work);
        ++made_all;
      }
    }
  }
  CHECK(given_up > 30);
  CHECK(made_all > 30);
}

TEST_CASE("rows of micro-batches with equal ids are equal, and serve lower limits that they keep") {
  int served = 0;
  for (unsigned seed = 1; seed <= 80; ++seed) {
    INFO("seed " << seed);
    const MicroBatchCase c(seed);
    const RankDomain domain = c.domain();
    const std::vector<SampleId> samples = detail::longest_first(domain);
    FlexibleRows rows(domain, 8);
    std::map<std::size_t, RankRow> known;  // by id
    for (const Tokens limit : c.limits) {
      const FlexibleRows::Row& row = rows(samples, limit);
      for (const RankGroup& group : row.groups.row) {
        Tokens tokens = 0;
        for (const SampleId id : group.samples) tokens += c.lengths[id];
        CHECK(tokens <= limit * static_cast<Tokens>(group.size));
      }
      const auto [place, is_new] = known.emplace(row.id, row.groups.row);
      CHECK(place->second == row.groups.row);
      served += is_new ? 0 : 1;
    }
    rows.start_again(16);
    CHECK_FALSE(known.contains(rows(samples, c.limits.front()).id));
  }
  CHECK(served > 20);
}

TEST_CASE("ends of micro-batches are those of the lightest parts, of the work that was given last") {
  int unlike = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::vector<double> tokens(1 + random() % 12);
    for (double& each : tokens) each = static_cast<double>(1 + random() % 90);
    std::sort(tokens.rbegin(), tokens.rend());
    MicroBatchEnds ends(tokens);
    for (const double power : {2.0, 1.0, 0.5, 3.0}) {
      std::vector<double> work;
      for (const double each : tokens) work.push_back(std::pow(each, power));
      ends.use_work(work);
      const std::size_t count = 1 + random() % 4;
      CHECK(ends(count, MicroBatchCut::tokens) == lightest_parts(RowCuts(tokens), count));
      CHECK(ends(count, MicroBatchCut::tokens_last_full) == lightest_parts_last_full(RowCuts(tokens), count));
      CHECK(ends(count, MicroBatchCut::work) == lightest_parts(RowCuts(work), count));
      unlike += ends(count, MicroBatchCut::work) != ends(count, MicroBatchCut::tokens) ? 1 : 0;
    }
  }
  CHECK(unlike > 30);
}
