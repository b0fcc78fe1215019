#include "slimpack/planners/hotspa.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "github.hpp"
#include "oracle.hpp"
#include "rules.hpp"
#include "slimpack/exec/ranks.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/phase_search.hpp"
#include "tests/plan/naive_run.hpp"

using namespace slimpack;

namespace {

struct HotSpaCase {
  std::vector<Tokens> lengths;
  Job job;

  [[nodiscard]] MakeKindModels make() const {
    return calibrated_kinds(job.model, job.device, {}, {.reserve_bytes = 0.0});
  }
  [[nodiscard]] Plan plan(const HotSpaOptions& options = {}) const {
    return plan_hotspa(lengths, job, options, make());
  }
  [[nodiscard]] std::vector<Strategy> strategies() const {
    std::vector<Strategy> out;
    for (const Layout& layout : layouts(job.model, job.device, {.devices = job.layout.dp})) {
      Job own = job;
      own.layout = layout;
      out.push_back(layout_strategy(own));
    }
    return out;
  }
  /// The best plan of megatron on any layout, its cp as given.
  [[nodiscard]] double megatron() const {
    double best = std::numeric_limits<double>::infinity();
    for (const Layout& layout : layouts(job.model, job.device, {.devices = job.layout.dp})) {
      Job own = job;
      own.layout = layout;
      try {
        const Plan plan =
            plan_megatron(lengths, own, CalibratedCost(own), TransformerMemory(own, {.reserve_bytes = 0.0}),
                          assumed_attention(own), {.choose_cp = false});
        best = std::min(best, plan.step.seconds);
      } catch (const InvalidInput&) {
      }
    }
    return best;
  }
};

/// Short samples and a few long ones on 4 or 8 devices in nodes of 4, with ample memory or little; switches may be cheap.
HotSpaCase random_hotspa_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  HotSpaCase c;
  // One draw after another: compilers evaluate arguments in different orders.
  const int kind = pick(0, 2) == 0 ? 3 : 2;
  const auto samples = static_cast<std::size_t>(pick(8, 40));
  c.lengths = oracle::random_lengths(random, samples, kind, 4000);
  c.job = oracle::random_job(random, 1, 1e9);
  c.job.model.layers = 4;
  c.job.layout = {.dp = pick(0, 1) == 0 ? 4 : 8};
  const double cheap = std::pow(10.0, pick(0, 3));
  c.job.device.inter_node.bandwidth *= cheap;
  c.job.device.intra_node.bandwidth *= cheap;
  c.job.device.memory_bytes = 6e6 * std::exp(0.8 * pick(0, 5));
  return c;
}

}  // namespace

TEST_CASE(
    "plans of hotspa obey all rules, take what a run of them takes, and are no longer than megatron's best") {
  int planned = 0, refused = 0, switched = 0, shorter = 0;
  for (unsigned seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    const HotSpaCase c = random_hotspa_case(seed);
    Plan plan;
    try {
      plan = c.plan();
    } catch (const InvalidInput& error) {
      CHECK_THAT(error.what(), Catch::Contains("homogeneous strategies; expected shorter samples"));
      CHECK(c.megatron() == std::numeric_limits<double>::infinity());
      ++refused;
      continue;
    }
    ++planned;
    CHECK(plan.planner == "hotspa");
    CHECK(violations(plan) == std::vector<std::string>{});
    CHECK(oracle::broken_rule(plan).empty());
    CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
    CHECK(plan.step.lower_bound_seconds > 0.0);
    CHECK(plan.step.lower_bound_seconds <= plan.step.seconds);
    for (const auto& stages : plan.step.peak_bytes) {
      for (const double bytes : stages) CHECK(bytes <= c.job.device.memory_bytes * (1.0 + 1e-9));
    }
    // Samples of a later phase are longer.
    std::vector<Tokens> least(plan.phases(), std::numeric_limits<Tokens>::max()), most(plan.phases(), 0);
    for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) {
      const auto phase = static_cast<std::size_t>(plan.pipelines[plan.forward.pipelines[k].front()].phase);
      for (const Slice& slice : plan.forward.packs[k]) {
        least[phase] = std::min(least[phase], slice.size());
        most[phase] = std::max(most[phase], slice.size());
      }
    }
    for (std::size_t i = 1; i < plan.phases(); ++i) CHECK(most[i - 1] < least[i]);
    CHECK(to_json(read_json(to_json(plan))) == to_json(plan));
    const double one = c.plan({.most_classes = 1}).step.seconds;
    CHECK(one == Approx(c.megatron()).epsilon(1e-12));
    CHECK(plan.step.seconds <= one * (1.0 + 1e-12));
    shorter += plan.step.seconds < one * (1.0 - 1e-9) ? 1 : 0;
    if (plan.phases() == 1) continue;
    ++switched;
    CHECK_THROWS_WITH(PlanRanks(plan),
                      Catch::Contains(".phase is 1; expected 0, as executors run plans of one phase"));
    for (const double seconds : plan.step.switch_seconds) CHECK(seconds > 0.0);
  }
  CHECK(planned > 25);
  CHECK(refused > 0);
  CHECK(switched > 5);
  CHECK(shorter > 5);
}

TEST_CASE("hotspa's classes and strategies are the best of all chains") {
  int several = 0, compared = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    HotSpaCase c = random_hotspa_case(seed);
    c.job.layout.dp = 4;
    const HotSpaOptions options{.most_classes = 3, .thresholds = 3, .rivals = 1000};
    std::vector<Strategy> strategies = c.strategies();
    std::mt19937 random(seed);
    std::shuffle(strategies.begin(), strategies.end(), random);
    strategies.resize(std::min<std::size_t>(strategies.size(), 5));
    detail::PhaseSearch search(c.lengths, c.job.model, c.job.device, options);
    for (const Strategy& strategy : strategies) search.add(strategy, c.make());
    // Samples by length, and the places where a class may end.
    std::vector<Tokens> sorted = c.lengths;
    std::sort(sorted.begin(), sorted.end());
    std::vector<std::size_t> ends;
    for (const Tokens most : {sorted.back() / 4, sorted.back() / 2, sorted.back()}) {
      const auto place =
          static_cast<std::size_t>(std::upper_bound(sorted.begin(), sorted.end(), most) - sorted.begin());
      if (place > (ends.empty() ? 0 : ends.back())) ends.push_back(place);
    }
    double exact = std::numeric_limits<double>::infinity();
    const std::function<void(std::size_t, int, double)> chain = [&](std::size_t begin, int before,
                                                                    double seconds) {
      if (begin == sorted.size()) {
        const double all = seconds + search.strategy(static_cast<std::size_t>(before)).sync_seconds();
        exact = std::min(exact, all);
        return;
      }
      for (const std::size_t end : ends) {
        if (end <= begin) continue;
        const std::vector<Tokens> own = search.classes().lengths_of(search.classes().samples(begin, end));
        for (std::size_t s = 0; s < search.strategies(); ++s) {
          if (static_cast<int>(s) == before) continue;
          Scheduler scheduler(own, search.strategy(s).prices(), search.strategy(s).memory());
          const double class_seconds = search.plan(s, scheduler, own).seconds;
          if (class_seconds == std::numeric_limits<double>::infinity()) continue;
          const double change =
              before < 0 ? 0.0 : search.seconds_between(static_cast<std::size_t>(before), s);
          chain(end, static_cast<int>(s), seconds + change + class_seconds);
        }
      }
    };
    chain(0, -1, 0.0);
    if (exact == std::numeric_limits<double>::infinity()) continue;
    ++compared;
    const Plan plan = plan_hotspa(c.lengths, c.job.model, c.job.device, strategies, c.make(), options);
    CHECK(plan.step.seconds == Approx(exact).epsilon(1e-9));
    several += plan.phases() > 1 ? 1 : 0;
  }
  CHECK(compared > 10);
  CHECK(several > 2);
}

TEST_CASE("where switches take long, one strategy runs all samples") {
  const std::vector<Tokens> lengths = oracle::github(256, 65536);
  Job job = oracle::llama_13b(16, 1);
  const Plan usual = plan_hotspa(lengths, job);
  CHECK(usual.phases() > 1);
  CHECK(violations(usual).empty());
  HotSpaOptions dear;
  dear.weight_bytes = dear.gradient_bytes = 1e4;
  const Plan alone = plan_hotspa(lengths, job, dear);
  CHECK(alone.phases() == 1);
  CHECK(usual.step.seconds < alone.step.seconds);
}

TEST_CASE("hotspa refuses what it can't plan, and says why") {
  const Job job = oracle::llama_13b(8, 1);
  const std::vector<Tokens> lengths{4000, 70, 8000};
  CHECK_THROWS_WITH(plan_hotspa({}, job), Catch::Contains("the batch has no samples"));
  CHECK_THROWS_WITH(plan_hotspa(lengths, job, {.context = 5000}),
                    Catch::Contains("sample 2 has 8000 tokens; expected at most the context of 5000"));
  CHECK_THROWS_WITH(plan_hotspa(lengths, job, {.most_classes = 0}), Catch::Contains("most_classes is 0"));
  CHECK_THROWS_WITH(plan_hotspa(lengths, job, {.thresholds = 0}), Catch::Contains("thresholds is 0"));
  CHECK_THROWS_WITH(plan_hotspa(lengths, job, {.rivals = 0}), Catch::Contains("rivals is 0"));
  CHECK_THROWS_WITH(plan_hotspa(std::vector<Tokens>{900'000'000}, job),
                    Catch::Contains("a sample of 900000000 tokens fits none of "));
  const auto make = calibrated_kinds(job.model, job.device);
  CHECK_THROWS_WITH(plan_hotspa(lengths, job.model, job.device, {}, make), Catch::Contains("no strategies"));
  PipelineSpec one = layout_pipeline(job.model, {.dp = 1, .tp = 4}, 0), other = one;
  other.tp = 2;
  other.devices = {{4, 5}};
  const std::vector<Strategy> unequal{strategy_of({one, other})};
  CHECK_THROWS_WITH(plan_hotspa(lengths, job.model, job.device, unequal, make),
                    Catch::Contains("strategy 0 has 2 kinds of pipelines; expected 1"));
}
