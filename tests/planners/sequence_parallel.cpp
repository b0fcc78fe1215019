#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "oracle.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/deepspeed.hpp"
#include "slimpack/planners/flexsp.hpp"
#include "tests/plan/naive_memory.hpp"
#include "tests/plan/naive_run.hpp"

using namespace slimpack;

namespace {

struct Case {
  std::vector<Tokens> lengths;
  Job job;
  UlyssesOptions options = ulysses_options();

  [[nodiscard]] Case on(std::int32_t dp, std::int32_t cp) const {
    Case out = *this;
    out.job.layout = {.dp = dp, .tp = 1, .cp = cp, .pp = 1};
    return out;
  }
  [[nodiscard]] CalibratedCost cost() const { return {CalibratedCost(job, options.cost)}; }
  [[nodiscard]] TransformerMemory memory() const { return TransformerMemory(job, options.memory); }
};

/// A batch of any kind on up to 8 devices in nodes of 4, with ample memory or little more than weights need.
Case random_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  Case c;
  const auto samples = static_cast<std::size_t>(pick(1, 40));
  c.lengths = oracle::random_lengths(random, samples, pick(0, 3), 900);
  c.options.memory.reserve_bytes = 0.0;
  c.job = oracle::random_job(random, 1, 1e9);
  c.job.model.heads = 8;
  c.job.layout = {
      .dp = std::vector{1, 2, 4, 8, 6}[static_cast<std::size_t>(pick(0, 4))], .tp = 1, .cp = 1, .pp = 1};
  c.job.device.memory_bytes = c.memory().static_bytes(0) + 1e6 * std::exp(0.9 * pick(0, 5));
  return c;
}

Plan deepspeed(const Case& c, const DeepSpeedOptions& options = {}) {
  return plan_deepspeed(c.lengths, c.job, c.cost(), c.memory(), assumed_attention(c.job), options);
}
Plan flexsp(const Case& c, const FlexSpOptions& options = {}) {
  return plan_flexsp(c.lengths, c.job, c.cost(), c.memory(), assumed_attention(c.job), options);
}

/// What every plan has: rules, time, memory, whole samples on neighbouring pipelines, and barriers in the step.
void check_plan(const Case& c, const Plan& plan) {
  CHECK(violations(plan) == std::vector<std::string>{});
  CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
  CHECK(plan.step.lower_bound_seconds > 0.0);
  CHECK(plan.step.lower_bound_seconds <= plan.step.seconds);
  CHECK(plan.step.seconds == Approx(plan.step.pipeline_seconds + plan.step.sync_seconds));
  CHECK(plan.step.sync_seconds >= c.cost().sync_seconds());
  CHECK(plan.forward.packs == plan.backward.packs);
  const TransformerMemory memory = c.memory();
  const auto naive = slimpack::testing::naive_peak_bytes(plan, memory);
  for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
    CHECK(plan.step.peak_bytes[p][0] == Approx(naive[p][0]).epsilon(1e-6));
    CHECK(plan.step.peak_bytes[p][0] <= memory.capacity_bytes() * (1.0 + 1e-9));
  }
  for (const Slice& slice : plan.forward.packs.slices()) {
    CHECK(slice.begin == 0);
    CHECK(slice.end == plan.tokens[slice.sample]);
  }
  for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) {
    const auto members = plan.forward.pipelines[k];
    CHECK((std::has_single_bit(members.size()) || members.size() == plan.pipelines.size()));
    CHECK(members.back() - members.front() + 1 == members.size());
    for (const KeyExchange e : plan.forward.exchange)
      CHECK((e == KeyExchange::all_to_all || e == KeyExchange::none));
  }
}

double pack_seconds(const Plan& plan, std::size_t k) {
  return plan.forward.seconds[k][0] + plan.backward.seconds[k][0];
}

}  // namespace

TEST_CASE("plans of deepspeed keep all rules, and wait for the slowest pack of each micro-batch") {
  int planned = 0, waiting = 0, recomputed = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    const Case own = random_case(seed);
    const std::int32_t cp = seed % 3 == 0 ? 2 : 1, dp = std::max(1, own.job.layout.dp / cp);
    const Case c = own.on(dp, cp);
    Plan plan;
    try {
      plan = deepspeed(c);
    } catch (const InvalidInput&) {
      continue;
    }
    ++planned;
    CHECK(plan.planner == "deepspeed");
    check_plan(c, plan);
    CHECK(plan.forward.pipelines.values().size() == plan.forward.packs.size());
    double seconds = c.cost().sync_seconds(), most = 0.0;
    for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) {
      most = std::max(most, pack_seconds(plan, k));
      if ((k + 1) % static_cast<std::size_t>(dp) != 0 && k + 1 < plan.forward.packs.size()) continue;
      seconds += most;
      most = 0.0;
    }
    CHECK(plan.step.seconds == Approx(seconds));
    waiting += plan.step.sync_seconds > 1.001 * c.cost().sync_seconds() ? 1 : 0;
    recomputed += plan.backward.recompute_layers.values()[0] > 0 ? 1 : 0;
  }
  CHECK(planned > 120);
  CHECK(waiting > 8);
  CHECK(recomputed > 15);
}

TEST_CASE("plans of flexsp keep all rules, and none of deepspeed on the same devices is shorter") {
  int planned = 0, shared = 0, mixed = 0, shorter = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    const Case c = random_case(seed);
    Plan plan;
    bool fits = true;
    try {
      plan = flexsp(c);
      ++planned;
      CHECK(plan.planner == "flexsp");
      check_plan(c, plan);
    } catch (const InvalidInput&) {
      fits = false;
    }
    double least = std::numeric_limits<double>::infinity();
    for (std::int32_t cp = 1; cp <= c.job.layout.dp; cp *= 2) {
      if (c.job.layout.dp % cp != 0) continue;
      try {
        least = std::min(least, deepspeed(c.on(c.job.layout.dp / cp, cp)).step.seconds);
      } catch (const InvalidInput&) {
      }
    }
    if (!fits) CHECK(least == std::numeric_limits<double>::infinity());
    if (!fits) continue;
    CHECK(plan.step.seconds <= least * (1 + 1e-9));
    shorter += plan.step.seconds < 0.99 * least ? 1 : 0;
    std::vector<std::size_t> sizes;
    for (std::size_t k = 0; k < plan.forward.packs.size(); ++k)
      sizes.push_back(plan.forward.pipelines[k].size());
    const auto [small, large] = std::minmax_element(sizes.begin(), sizes.end());
    shared += *large > 1 ? 1 : 0;
    mixed += *small != *large ? 1 : 0;
  }
  CHECK(planned > 140);
  CHECK(shared > 50);
  CHECK(mixed > 20);
  CHECK(shorter > 20);
}

namespace {

/// Seconds of samples on a group, without attention tables: as `plan_flexsp` prices them if none are given.
double group_seconds(const CalibratedCost& cost, Tokens length, std::int32_t size) {
  const CalibratedCost own = size > 1 ? cost.with_context_parallel(size) : cost;
  return own.slice_seconds(0, 0, length, Pass::forward) + own.slice_seconds(0, 0, length, Pass::backward);
}

/// The shortest step, by trying all micro-batches of samples, all splits of the ranks, and all groups of each sample.
double exact_seconds(const Case& c) {
  const CalibratedCost cost = c.cost();
  const double constant = cost.pack_seconds(0, Pass::forward) + cost.pack_seconds(0, Pass::backward);
  const std::size_t n = c.lengths.size();
  std::vector<double> row(std::size_t{1} << n, std::numeric_limits<double>::infinity());
  std::vector<std::int32_t> sizes;
  std::vector<double> work;
  const auto assign = [&](auto&& self, unsigned set, unsigned left, double most) -> void {
    if (most >= row[set]) return;
    if (left == 0) {
      row[set] = most;
      return;
    }
    const auto i = static_cast<std::size_t>(std::countr_zero(left));
    for (std::size_t g = 0; g < sizes.size(); ++g) {
      const double own = group_seconds(cost, c.lengths[i], sizes[g]);
      work[g] += own;
      self(self, set, left & (left - 1), std::max(most, work[g]));
      work[g] -= own;
    }
  };
  const std::function<void(std::int32_t, std::int32_t)> split = [&](std::int32_t left, std::int32_t largest) {
    work.assign(sizes.size(), 0.0);
    for (unsigned set = 1; set < row.size(); ++set) assign(assign, set, set, 0.0);
    for (std::int32_t size = 1; size <= std::min(left, largest); size *= 2) {
      sizes.push_back(size);
      split(left - size, size);
      sizes.pop_back();
    }
  };
  split(c.job.layout.dp, c.job.layout.dp);
  std::vector<double> best(row.size(), std::numeric_limits<double>::infinity());
  best[0] = 0.0;
  for (unsigned set = 1; set < row.size(); ++set) {
    for (unsigned own = set; own > 0; own = (own - 1) & set)
      best[set] = std::min(best[set], best[set & ~own] + constant + row[own]);
  }
  return best.back() + cost.sync_seconds();
}

}  // namespace

TEST_CASE("on few samples, flexsp's step is as short as the shortest of all micro-batches and groups") {
  int exact = 0, cases = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    Case c = random_case(seed);
    std::mt19937 random(seed);
    c.lengths = oracle::random_lengths(random, 1 + seed % 5, static_cast<int>(seed % 4), 900);
    c.job.device.memory_bytes = 1e12;
    c = c.on(seed % 2 == 0 ? 4 : 2, 1);
    const double least = exact_seconds(c);
    const Plan plan = plan_flexsp(c.lengths, c.job, c.cost(), c.memory());
    CHECK(plan.step.seconds >= least * (1 - 1e-9));
    CHECK(plan.step.seconds <= 1.05 * least);
    exact += plan.step.seconds <= least * (1 + 1e-9) ? 1 : 0;
    ++cases;
  }
  CHECK(exact > 0.9 * cases);
}

TEST_CASE("the more ZeRO-3 costs, the fewer and larger micro-batches are") {
  std::mt19937 random(5);
  Case c{
      .lengths = oracle::random_lengths(random, 300, 0, 20000),
      .job = {transformer_preset("llama-7b"), device_preset("a800"), {.dp = 16, .tp = 1, .cp = 1, .pp = 1}}};
  const auto packs = [&](double overlap) {
    c.options.cost.zero3.overlap = overlap;
    return flexsp(c);
  };
  const Plan hidden = packs(1.0), shown = packs(0.0);
  CHECK(shown.forward.packs.size() <= hidden.forward.packs.size());
  CHECK(shown.step.seconds > hidden.step.seconds);
}

TEST_CASE("layouts with tensor parallelism or stages, and heads that can't be divided, are refused") {
  const std::vector<Tokens> lengths{1000, 200, 30, 4};
  Job job{transformer_preset("llama-13b"), device_preset("a800"), {.dp = 2, .tp = 2, .cp = 1, .pp = 1}};
  CHECK_THROWS_WITH(
      plan_deepspeed(lengths, job),
      Catch::Contains("tp is 2; expected 1, as planner deepspeed supports only sequence parallelism"));
  CHECK_THROWS_WITH(plan_flexsp(lengths, job), Catch::Contains("tp is 2; expected 1, as planner flexsp"));
  job.layout = {.dp = 1, .tp = 1, .cp = 1, .pp = 2};
  CHECK_THROWS_WITH(plan_deepspeed(lengths, job), Catch::Contains("pp is 2; expected 1"));
  CHECK_THROWS_WITH(plan_flexsp(lengths, job), Catch::Contains("pp is 2; expected 1"));
  job.layout = {.dp = 1, .tp = 1, .cp = 16, .pp = 1};
  CHECK_THROWS_WITH(plan_deepspeed(lengths, job), Catch::Contains("expected a divisor of the 40 heads"));
  job.layout = {.dp = 2, .tp = 1, .cp = 8, .pp = 1};
  CHECK_THROWS_WITH(plan_deepspeed(lengths, job, {.context = 999}),
                    Catch::Contains("sample 0 has 1000 tokens; expected at most the context of 999"));
  CHECK_THROWS_WITH(plan_deepspeed(lengths, job, {.pack_tokens = 999}),
                    Catch::Contains("pack_tokens is 999; expected the longest sample's 1000"));
  job.layout = {.dp = 16, .tp = 1, .cp = 1, .pp = 1};
  CHECK_THROWS_WITH(plan_flexsp(lengths, job, {.context = 999}), Catch::Contains("context of 999"));
  CHECK_THROWS_WITH(plan_flexsp(lengths, job, {.limit = -1}), Catch::Contains("limit is -1"));
  CHECK_THROWS_WITH(plan_flexsp(std::vector<Tokens>{50'000'000}, job),
                    Catch::Contains("no micro-batches that were tried fit into"));
}
