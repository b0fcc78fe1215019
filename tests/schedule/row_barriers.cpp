#include "slimpack/schedule/row_barriers.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "slimpack/partition/balanced_rank_rows.hpp"
#include "slimpack/schedule/scheduler.hpp"
#include "slimpack/slicing/rank_packs.hpp"
#include "tests/schedule/random_rows.hpp"

using namespace slimpack;

namespace {

/// Starts each row when all ranks have ended the one before, and runs its groups' samples one by one.
double run_rows(const std::vector<RankRow>& rows, const Schedule& schedule) {
  double now = 0.0;
  std::size_t k = 0;
  for (const RankRow& row : rows) {
    double end = now;
    for (const RankGroup& group : row) {
      double at = now;
      for (std::size_t i = 0; i < group.samples.size(); ++i, ++k)
        at += schedule.forward_times.seconds[k] + schedule.backward_times.seconds[k];
      end = std::max(end, at);
    }
    now = end;
  }
  return now;
}

}  // namespace

TEST_CASE("with barriers, each row begins when all ranks have ended the one before") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t ranks = std::size_t{1} << random() % 4;
    std::vector<Tokens> lengths(1 + random() % 40);
    for (Tokens& length : lengths) length = static_cast<Tokens>(1 + random() % 100);
    const Tokens limit = static_cast<Tokens>(100 / ranks + 1 + random() % 40);
    const RankDomain domain(lengths, ranks, rank_group_sizes(ranks, [](std::size_t) { return true; }),
                            squared_tokens);
    const std::vector<RankRow> rows = balanced_rank_rows(domain, limit, false);
    RankPacks packs = rank_packs(lengths, rows, ranks, true);
    GroupPrices prices{Prices(oracle::random_cost(random, 1))};
    const std::vector<std::int32_t> layers{2};
    const Memory memory(oracle::UnevenMemory{.capacity = 1e12, .layers = layers}, layers, true);
    Schedule schedule;
    schedule.pipelines = ranks;
    schedule.forward = schedule.backward = std::move(packs.packs);
    Scheduler scheduler(lengths, prices, memory);
    scheduler(schedule);
    const double seconds = seconds_with_barriers(schedule, packs.row);
    CHECK(seconds == Approx(run_rows(rows, schedule)));
    CHECK(seconds >= schedule.seconds * (1.0 - 1e-12));
  }
}

TEST_CASE("no packs take no time") { CHECK(seconds_with_barriers({}, {}) == 0.0); }
