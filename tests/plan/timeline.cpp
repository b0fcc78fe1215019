#include "slimpack/plan/timeline.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/plan/equal_plan.hpp"
#include "tests/plan/naive_run.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;

namespace {

/// Plans of many shapes: by seed, with and without merged packs and weight tasks, in a usual order and in a
/// wild one.
Plan random_plan(std::uint64_t seed) {
  testing::SamplePlanOptions options;
  options.seed = seed;
  options.samples = 1 + seed % 6;
  options.pipelines = 1 + seed % 3;
  options.stages = 1 + seed % 4;
  options.merged = seed % 2 == 0 ? 2 : 0;
  options.split_weights = seed % 5 == 0;
  options.details = seed % 2 == 0;
  Plan plan = testing::sample_plan(options);
  if (seed % 3 != 0) testing::shuffle_orders(plan, seed);
  return plan;
}

}  // namespace

TEST_CASE("times of random plans are those of a naive run") {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    INFO("seed " << seed);
    const Plan plan = random_plan(seed);
    const testing::NaiveRun expected(plan);
    REQUIRE(expected.complete);
    const Timeline timeline = time_plan(plan);
    CHECK(timeline.seconds == expected.seconds);
    REQUIRE(timeline.stages.size() == plan.pipelines.size());
    for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
      REQUIRE(timeline.stages[p].size() == plan.pipelines[p].stages());
      for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
        REQUIRE(timeline.stages[p][s].size() == plan.pipelines[p].order[s].size());
        for (std::size_t i = 0; i < timeline.stages[p][s].size(); ++i) {
          CHECK(timeline.stages[p][s][i].start == expected.start[p][s][i]);
          CHECK(timeline.stages[p][s][i].finish == expected.finish[p][s][i]);
        }
      }
    }
  }
}

TEST_CASE("the critical path of random plans is as long as the step") {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    INFO("seed " << seed);
    const Plan plan = random_plan(seed);
    const Timeline timeline = time_plan(plan);
    double length = 0.0;
    for (std::size_t i = 0; i < timeline.critical_path.size(); ++i) {
      const auto& [pipeline, stage, task] = timeline.critical_path[i];
      if (task.pass != Pass::weight) {
        length += plan.of(task.pass).seconds[task.pack][stage];
      } else if (plan.backward.weight_seconds.size() > 0) {
        length += plan.backward.weight_seconds[task.pack][stage];
      }
      if (i == 0) continue;
      const auto& before = timeline.critical_path[i - 1];
      if (before.stage != stage) {
        CHECK(before.task == task);
        length += plan.of(task.pass).transfer_seconds[task.pack][std::min(before.stage, stage)];
      }
    }
    CHECK(length == timeline.seconds);
  }
}

TEST_CASE("bubbles of random plans sum to each stage's idle time") {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    INFO("seed " << seed);
    const Plan plan = random_plan(seed);
    const Timeline timeline = time_plan(plan);
    double idle = 0.0;
    for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
      REQUIRE(timeline.bubbles[p].size() == plan.pipelines[p].stages());
      for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
        double busy = 0.0;
        for (const TaskTime& time : timeline.stages[p][s]) busy += time.finish - time.start;
        const BubbleSplit<>& split = timeline.bubbles[p][s];
        CHECK(split.busy == Approx(busy).margin(1e-12));
        CHECK(split.idle() == Approx(timeline.seconds - busy).margin(1e-12));
        CHECK(std::min({split.warm_up, split.dependency, split.imbalance, split.cool_down}) >= 0.0);
        idle += split.idle();
      }
    }
    CHECK(timeline.bubble_sum.idle() == Approx(idle).margin(1e-12));
  }
}

TEST_CASE("equal micro-batches in 1F1B take (m + p - 1)(f + b), and nothing is imbalance") {
  for (std::size_t p = 1; p <= 5; ++p) {
    for (std::size_t m = 1; m <= 9; ++m) {
      INFO("p " << p << ", m " << m);
      const Timeline timeline = time_plan(testing::equal_plan(p, m, 1.0, 2.0));
      CHECK(timeline.seconds == static_cast<double>(m + p - 1) * 3.0);
      CHECK(timeline.bubble_sum.imbalance == 0.0);
      CHECK(timeline.bubble_sum.ratio() ==
            Approx(static_cast<double>(p - 1) / static_cast<double>(m + p - 1)));
      for (std::size_t s = 0; s < p; ++s) {
        CHECK(timeline.bubbles[0][s].warm_up == static_cast<double>(s));
        CHECK(timeline.bubbles[0][s].cool_down == static_cast<double>(s) * 2.0);
      }
    }
  }
}

TEST_CASE("a gap made by one long pack is imbalance") {
  // Two stages that alternate without gaps once they are full; F3 takes 5 times as long on the first.
  Plan plan = testing::equal_plan(2, 8, 1.0, 1.0);
  const BubbleSplit<> even = time_plan(plan).bubbles[0][1];
  plan.forward.seconds[3][0] = 5.0;
  const Timeline timeline = time_plan(plan);
  CHECK(even.imbalance == 0.0);
  CHECK(timeline.bubbles[0][1].imbalance > 1.0);
  CHECK(timeline.bubbles[0][1].imbalance > timeline.bubbles[0][1].dependency);
}

TEST_CASE("transfers delay the next stage") {
  Plan plan = testing::equal_plan(3, 1, 1.0, 2.0);
  plan.forward.transfer_seconds[0][1] = 0.25;
  plan.backward.transfer_seconds[0][0] = 0.5;
  const Timeline timeline = time_plan(plan);
  CHECK(timeline.seconds == 3 * 1.0 + 0.25 + 3 * 2.0 + 0.5);
  CHECK(timeline.critical_path.size() == 6);
}

TEST_CASE("members of a merged pack start together") {
  Plan plan = testing::equal_plan(1, 3, 1.0, 1.0);
  plan.pipelines.push_back(plan.pipelines[0]);
  plan.pipelines[1].id = 1;
  // Pack 0 on pipeline 0, pack 1 on pipeline 1, pack 2 on both.
  for (PassPlan* pass : {&plan.forward, &plan.backward}) {
    pass->pipelines = {};
    pass->pipelines.add_row(1, 0);
    pass->pipelines.add_row(1, 1);
    pass->pipelines.add_row(2, 0)[1] = 1;
  }
  const Task f0{Pass::forward, 0}, f1{Pass::forward, 1}, f2{Pass::forward, 2}, b0{Pass::backward, 0},
      b1{Pass::backward, 1}, b2{Pass::backward, 2};
  plan.forward.seconds[0][0] = 4.0;
  plan.pipelines[0].order = {{f0, f2, b2, b0}};
  plan.pipelines[1].order = {{f1, f2, b2, b1}};
  const Timeline timeline = time_plan(plan);
  CHECK(timeline.stages[0][0][1].start == 4.0);
  CHECK(timeline.stages[1][0][1].start == 4.0);
  CHECK(timeline.bubbles[1][0].idle() == 3.0);
  const PlanGraph graph = plan_graph(plan);
  CHECK(graph.nodes.size() == 6);
  CHECK(graph.task_of[0][0][1] == graph.task_of[1][0][1]);
}

TEST_CASE("orders that wait for each other are named") {
  Plan plan = testing::equal_plan(2, 2, 1.0, 1.0);
  std::swap(plan.pipelines[0].order[1][0], plan.pipelines[0].order[1][1]);  // B0 before F0 on the last stage
  CHECK_THROWS_WITH(time_plan(plan), Catch::Contains("pipeline 0 stage 1 F0 -> pipeline 0 stage 1 B0") ||
                                         Catch::Contains("pipeline 0 stage 1 B0 -> pipeline 0 stage 1 F0"));
  CHECK(!testing::NaiveRun(plan).complete);
}

TEST_CASE("slices of a sample out of order are a cycle") {
  Plan plan = testing::equal_plan(1, 2, 1.0, 1.0);
  plan.tokens = {16};
  plan.forward.packs.clear();
  plan.backward.packs.clear();
  for (const Tokens begin : {8, 0}) {  // the forward packs run backwards
    plan.forward.packs.add({0, begin, begin + 8});
    plan.forward.packs.close();
    plan.backward.packs.add({0, begin, begin + 8});
    plan.backward.packs.close();
  }
  plan.pipelines[0].order = {
      {{Pass::forward, 0}, {Pass::forward, 1}, {Pass::backward, 0}, {Pass::backward, 1}}};
  CHECK_THROWS_AS(time_plan(plan), InvalidInput);
  std::swap(plan.pipelines[0].order[0][0], plan.pipelines[0].order[0][1]);
  CHECK(time_plan(plan).seconds == 4.0);
  std::swap(plan.pipelines[0].order[0][2], plan.pipelines[0].order[0][3]);
  CHECK_THROWS_AS(time_plan(plan), InvalidInput);
}

TEST_CASE("a backward pack before the last forward slice of its sample is a cycle") {
  Plan plan = testing::equal_plan(1, 2, 1.0, 1.0);
  plan.tokens = {16};
  plan.forward.packs.clear();
  plan.backward.packs.clear();
  for (const Tokens begin : {0, 8}) {
    plan.forward.packs.add({0, begin, begin + 8});
    plan.forward.packs.close();
    plan.backward.packs.add({0, 8 - begin, 16 - begin});
    plan.backward.packs.close();
  }
  const Task f0{Pass::forward, 0}, f1{Pass::forward, 1}, b0{Pass::backward, 0}, b1{Pass::backward, 1};
  plan.pipelines[0].order = {{f0, b0, f1, b1}};
  CHECK_THROWS_WITH(time_plan(plan), Catch::Contains("B0") && Catch::Contains("F1"));
  plan.pipelines[0].order = {{f0, f1, b0, b1}};
  CHECK(time_plan(plan).seconds == 4.0);
}

TEST_CASE("a plan without pipelines takes no time, one with a single task its duration") {
  CHECK(time_plan(Plan{}).seconds == 0.0);
  CHECK(time_plan(Plan{}).critical_path.empty());
  Plan plan = testing::equal_plan(1, 1, 1.5, 2.0);
  const Timeline timeline = time_plan(plan);
  CHECK(timeline.seconds == 3.5);
  CHECK(timeline.critical_path ==
        std::vector<PlanGraph::Node>{{0, 0, {Pass::forward, 0}}, {0, 0, {Pass::backward, 0}}});
}
