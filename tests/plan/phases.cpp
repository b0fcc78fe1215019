#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sample_plan.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/validate.hpp"

using namespace slimpack;
using slimpack::testing::sample_plan;
using slimpack::testing::SamplePlanOptions;

// Plans of several phases: two pipelines that run at once become two phases of one pipeline each.

namespace {

/// The pipelines of a plan, one after another; times as two plans would take them.
Plan in_two_phases(std::uint64_t seed, double switch_seconds) {
  Plan plan = sample_plan(SamplePlanOptions{.seed = seed, .samples = 9});
  const Timeline at_once = time_plan(plan);
  double end[2] = {0.0, 0.0};
  for (std::size_t p = 0; p < 2; ++p) {
    for (const auto& stage : at_once.stages[p]) {
      for (const TaskTime& task : stage) end[p] = std::max(end[p], task.finish);
    }
    plan.pipelines[p].phase = static_cast<std::int32_t>(p);
    plan.pipelines[p].devices.clear();
    for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
      plan.pipelines[p].devices.emplace_back();
      for (std::int32_t r = 0; r < plan.pipelines[p].tp * plan.pipelines[p].cp; ++r)
        plan.pipelines[p].devices[s].push_back(static_cast<DeviceId>(100 * s) + r);
    }
  }
  plan.step.switch_seconds = {switch_seconds};
  plan.step.pipeline_seconds = end[0] + switch_seconds + end[1];
  plan.step.seconds = plan.step.pipeline_seconds + plan.step.sync_seconds;
  plan.step.lower_bound_seconds = 0.0;
  double busy = 0.0, all = 0.0;
  for (std::size_t p = 0; p < 2; ++p) {
    for (const BubbleSplit<>& split : at_once.bubbles[p]) busy += split.busy;
    all += end[p] * static_cast<double>(plan.pipelines[p].stages());
  }
  plan.step.bubble_ratio = 1.0 - busy / all;
  return plan;
}

bool names_violation(const Plan& plan, const std::string& text) {
  const std::vector<std::string> found = violations(plan);
  return std::any_of(found.begin(), found.end(),
                     [&](const std::string& each) { return each.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE(
    "phases run one after another, with their switch between, and stages idle in their own phase only") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    const Plan plan = in_two_phases(seed, 0.125);
    CHECK(violations(plan) == std::vector<std::string>{});
    const Timeline times = time_plan(plan);
    CHECK(times.seconds == Approx(plan.step.pipeline_seconds));
    double end = 0.0, begin = times.seconds;
    for (const auto& stage : times.stages[0]) {
      for (const TaskTime& task : stage) end = std::max(end, task.finish);
    }
    for (const auto& stage : times.stages[1]) {
      for (const TaskTime& task : stage) begin = std::min(begin, task.start);
    }
    CHECK(begin == Approx(end + 0.125));
    CHECK(times.critical_path.front().pipeline == 0);
    CHECK(times.critical_path.back().pipeline == 1);
    CHECK(plan_metrics(plan).replica_imbalance == 1.0);  // each phase has one pipeline
  }
}

TEST_CASE("what is wrong with phases is named") {
  Plan plan = in_two_phases(3, 0.5);
  plan.step.switch_seconds = {0.25};
  CHECK(names_violation(plan, "rule 5: step.pipeline_seconds is"));
  plan.step.switch_seconds = {-1.0};
  CHECK(names_violation(plan, "step.switch_seconds[0] is -1; expected zero or a positive number"));
  plan = in_two_phases(3, 0.5);
  plan.step.switch_seconds.clear();
  CHECK(names_violation(plan, "pipelines[1].phase is 1; expected 0 to the 0 entries of step.switch_seconds"));
  plan = in_two_phases(3, 0.5);
  plan.pipelines[1].phase = 0;
  CHECK(names_violation(plan, "phase 1 has no pipelines"));
  CHECK(names_violation(plan, "names device 0 twice; expected distinct ids in each phase"));
  plan = in_two_phases(3, 0.5);
  plan.forward.pipelines = {};
  for (std::size_t k = 0; k < plan.forward.packs.size(); ++k)
    plan.forward.pipelines.add_row(2, PipelineId{0})[1] = 1;
  CHECK(names_violation(plan, "forward[0] runs on pipeline 1 of phase 1; expected pipelines of one phase"));
}
