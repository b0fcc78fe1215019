#include "slimpack/planners/best_layout.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "github.hpp"
#include "oracle.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/effort.hpp"

using namespace slimpack;

namespace {

/// Planners by number, with calibrated prices and a memory without reserve.
struct LayoutPrices {
  MemoryOptions memory = {};
  Tokens context = 0;

  [[nodiscard]] Plan plan(int planner, std::span<const Tokens> lengths, const Job& job) const {
    const CalibratedCost cost(job);
    const TransformerMemory own(job, memory);
    if (planner == 0)
      return plan_megatron(lengths, job, cost, own, assumed_attention(job), {.context = context});
    return plan_slimpack(lengths, job, cost, own, assumed_attention(job), {.context = context});
  }
  [[nodiscard]] double bound(std::span<const Tokens> lengths, const Job& job) const {
    return layout_bound(lengths, job, CalibratedCost(job), TransformerMemory(job, memory),
                        assumed_attention(job));
  }
};

struct SearchCase {
  std::vector<Tokens> lengths;
  Job job;
  LayoutSpace space;
  LayoutPrices prices;
};

SearchCase random_search_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  SearchCase c;
  // One after another: compilers differ in the order in which they evaluate arguments.
  const int shape = pick(0, 3), count = pick(2, 40);
  c.lengths = oracle::random_lengths(random, static_cast<std::size_t>(count), shape, 900);
  c.job = oracle::random_job(random, 1, 1e9);
  c.job.model.layers = pick(1, 6);
  c.prices = {.memory = {.reserve_bytes = 0.0}, .context = pick(0, 1) == 0 ? Tokens{0} : Tokens{2000}};
  // From more than enough to what holds no layout's weights.
  c.job.device.memory_bytes = 1e6 * std::exp(0.5 * pick(0, 10));
  const std::int64_t devices[] = {1, 2, 4, 6, 8, 12, 16};
  c.space.devices = devices[pick(0, 6)];
  if (pick(0, 2) == 0) c.space.given.pp = c.job.model.layers > 1 && c.space.devices > 1 ? pick(1, 2) : 1;
  if (pick(0, 2) == 0) c.space.given.cp = 1;
  return c;
}

/// Checks a search against plans on all layouts. @returns whether anything could be planned, and rows that were pruned.
std::pair<bool, int> check_against_sweep(const SearchCase& c, int planner) {
  const auto plan = [&](std::span<const Tokens> lengths, const Job& job) {
    return c.prices.plan(planner, lengths, job);
  };
  const auto bound = [&](std::span<const Tokens> lengths, const Job& job) {
    return c.prices.bound(lengths, job);
  };
  const auto search = [&](std::size_t threads) {
    return plan_best_layout(c.lengths, c.job, c.space, plan, bound, threads);
  };
  const std::vector<Layout> all = layouts(c.job.model, c.job.device, c.space);
  std::vector<double> seconds;
  double least = std::numeric_limits<double>::infinity();
  for (const Layout& layout : all) {
    Job job = c.job;
    job.layout = layout;
    seconds.push_back(std::numeric_limits<double>::infinity());
    try {
      seconds.back() = plan(c.lengths, job).step.seconds;
      CHECK(bound(c.lengths, job) <= seconds.back() * (1.0 + 1e-9));
    } catch (const InvalidInput&) {
      // Refused, as it should be in the search.
    }
    least = std::min(least, seconds.back());
  }
  if (least == std::numeric_limits<double>::infinity()) {
    CHECK_THROWS_AS(search(1), InvalidInput);
    return {false, 0};
  }
  const LayoutChoice<Plan> choice = search(1);
  CHECK(choice.planned.step.seconds == least);
  CHECK(violations(choice.planned).empty());
  REQUIRE(choice.rows.size() == all.size());
  int pruned = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const LayoutRow& row = choice.rows[i];
    INFO(to_text(row.layout));
    if (row.fate == LayoutFate::planned) CHECK(row.figures.seconds == seconds[i]);
    if (row.fate == LayoutFate::refused) CHECK(seconds[i] == std::numeric_limits<double>::infinity());
    if (row.fate == LayoutFate::pruned) CHECK(seconds[i] >= least);
    pruned += row.fate == LayoutFate::pruned ? 1 : 0;
  }
  for (const std::size_t threads : {2u, 8u}) {
    const LayoutChoice<Plan> other = search(threads);
    CHECK(to_json(other.planned) == to_json(choice.planned));
    for (std::size_t i = 0; i < all.size(); ++i) {
      CHECK(other.rows[i].fate == choice.rows[i].fate);
      CHECK(other.rows[i].figures.seconds == choice.rows[i].figures.seconds);
      CHECK(other.rows[i].reason == choice.rows[i].reason);
    }
  }
  return {true, pruned};
}

}  // namespace

TEST_CASE("the best layout is that of a sweep over all layouts, on any number of threads", "[threads]") {
  for (const int planner : {0, 1}) {
    const unsigned seeds = slimpack::testing::seeds(planner == 0 ? 60 : 20, 6, 6);
    unsigned planned = 0, pruned = 0;
    for (unsigned seed = 1; seed <= seeds; ++seed) {
      INFO("planner " << planner << ", seed " << seed);
      const auto [any, rows] = check_against_sweep(random_search_case(seed), planner);
      planned += any ? 1 : 0;
      pruned += static_cast<unsigned>(rows);
    }
    CHECK(planned > seeds / 2);
    CHECK(pruned > seeds / 4);
  }
}

TEST_CASE("the best layout is that of a sweep on lengths of real documents", "[slow]") {
  SearchCase c;
  const std::vector<Tokens> all = oracle::github(1500, 65536);
  c.lengths.assign(all.end() - 96, all.end());
  c.job = oracle::llama_13b(1, 1);
  c.space.devices = 32;
  c.prices.context = 65536;
  for (const int planner : {0, 1}) CHECK(check_against_sweep(c, planner).second > 0);
}

TEST_CASE("sizes that are given are kept") {
  const std::vector<Tokens> lengths = oracle::github(64, 32768);
  const auto plan = [](std::span<const Tokens> tokens, const Job& job) { return plan_megatron(tokens, job); };
  const auto bound = [](std::span<const Tokens> tokens, const Job& job) { return layout_bound(tokens, job); };
  const LayoutSpace space{.devices = 32, .given = {.dp = 0, .tp = 4, .cp = 0, .pp = 2}};
  const auto choice = plan_best_layout(lengths, oracle::llama_13b(1, 1), space, plan, bound);
  for (const LayoutRow& row : choice.rows) {
    CHECK(row.layout.tp == 4);
    CHECK(row.layout.pp == 2);
    CHECK(row.layout.devices() == 32);
  }
  CHECK(choice.planned.pipelines[0].tp == 4);
  CHECK(choice.planned.pipelines[0].stages() == 2);
}

TEST_CASE("without a layout that has room, the reason is the memory") {
  Job job = oracle::llama_13b(1, 1);
  const auto plan = [](std::span<const Tokens> tokens, const Job& own) { return plan_slimpack(tokens, own); };
  const auto bound = [](std::span<const Tokens> tokens, const Job& own) { return layout_bound(tokens, own); };
  const std::vector<Tokens> lengths(4, 1000);
  CHECK_THROWS_WITH(
      plan_best_layout(lengths, job, {.devices = 2}, plan, bound),
      Catch::Contains("before any token") && Catch::Contains("none of 4 layouts can be planned"));
  const std::vector<Tokens> giants(8, 5'000'000);
  CHECK_THROWS_WITH(plan_best_layout(giants, job, {.devices = 16}, plan, bound),
                    Catch::Contains("memory holds at most"));
}
