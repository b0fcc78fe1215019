#ifdef SLIMPACK_TEST_JSON
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "slimpack/cost/memory.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/html.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/plan/trace.hpp"
#include "slimpack/planners/slimpack.hpp"

using namespace slimpack;

namespace {

const Job& job() {
  static const Job made{
      transformer_preset("llama-7b"), device_preset("h100"), {.dp = 2, .tp = 4, .cp = 1, .pp = 4}};
  return made;
}

Plan plan_of_eight() {
  return plan_slimpack(std::vector<Tokens>{60000, 3000, 2000, 1500, 700, 300, 20, 5}, job(), {.packs = 6});
}

/// What a page's script reads.
nlohmann::json page_data(const std::string& page) {
  const auto begin = page.find("DATA=") + 5, end = page.find(";\n'use strict'");
  REQUIRE(end != std::string::npos);
  return nlohmann::json::parse(page.substr(begin, end - begin));
}

/// A page's tasks, decoded, are those of the timeline to a microsecond.
void check_stages(const nlohmann::json& data, const Plan& plan, const Timeline& timeline) {
  std::size_t on_path = 0;
  for (std::size_t i = 0; i < data["pipelines"].size(); ++i) {
    const std::size_t p = data["pipelines"][i];
    for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
      const std::vector<std::int64_t> flat = data["stages"][i][s];
      const auto& order = plan.pipelines[p].order[s];
      REQUIRE(flat.size() == 3 * order.size());
      const std::vector<std::uint32_t> critical = data["critical"][i][s];
      on_path += critical.size();
      for (const std::uint32_t key : critical) {
        const Task task{static_cast<Pass>(key % 3), key / 3};
        CHECK(std::find(order.begin(), order.end(), task) != order.end());
      }
      std::int64_t now = 0;
      for (std::size_t k = 0; k < order.size(); ++k) {
        CHECK(flat[3 * k] / 3 == order[k].pack);
        CHECK(flat[3 * k] % 3 == static_cast<int>(order[k].pass));
        CHECK(now + flat[3 * k + 1] == std::llround(timeline.stages[p][s][k].start * 1e6));
        now += flat[3 * k + 1] + flat[3 * k + 2];
        CHECK(now == std::llround(timeline.stages[p][s][k].finish * 1e6));
      }
    }
  }
  CHECK(on_path >= timeline.critical_path.size());
}

}  // namespace

TEST_CASE("a trace holds every task at its time, and no two at once on a stage") {
  const Plan plan = plan_of_eight();
  const Timeline timeline = time_plan(plan);
  const auto trace = nlohmann::json::parse(to_trace(plan, timeline));
  std::map<std::pair<int, int>, double> end;
  std::size_t events = 0, tasks = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const int p = event["pid"], s = event["tid"];
    const double start = event["ts"], duration = event["dur"];
    CHECK(start >= end[{p, s}] - 0.002);  // microseconds are rounded to nanoseconds
    end[{p, s}] = start + duration;
    const std::size_t i = events++ % plan.pipelines[0].order[0].size();
    if (p == 0 && s == 0) {
      CHECK(event["name"] == to_string(plan.pipelines[0].order[0][i]));
      CHECK(start == Approx(timeline.stages[0][0][i].start * 1e6).margin(0.001));
      CHECK(event["args"]["tokens"] ==
            count_tokens(
                plan.of(plan.pipelines[0].order[0][i].pass).packs[plan.pipelines[0].order[0][i].pack]));
    }
  }
  for (const PipelinePlan& pipeline : plan.pipelines) {
    for (const auto& order : pipeline.order) tasks += order.size();
  }
  CHECK(events == tasks);
}

TEST_CASE("the page stands alone and holds the plans it is given") {
  const Plan plan = plan_of_eight();
  const Timeline timeline = time_plan(plan);
  const MemoryCurves memory = memory_over_time(plan, timeline, TransformerMemory(job()));
  std::ostringstream out;
  write_html(out,
             std::vector<PlanView>{{&plan, &timeline, &memory, "a </script> \"quoted\" \\ title"},
                                   {&plan, &timeline, nullptr, "b"}},
             std::vector<PageFigure>{{"a <b>& more", {"1", "2"}}}, {.note = "means of <3>"});
  const std::string page = out.str();
  for (const char* foreign : {"http:", "https:", "src=", "href=", "import ", "@import"})
    CHECK(page.find(foreign) == std::string::npos);
  CHECK(page.find("<th>a &lt;b&gt;&amp; more</th><td>1</td><td>2</td>") != std::string::npos);
  CHECK(page.find("means of &lt;3&gt;") != std::string::npos);
  const auto data = page_data(page);
  REQUIRE(data.size() == 2);
  CHECK(page.find("</script>") == page.rfind("</script>"));
  CHECK(data[0]["title"] == "a </script> \"quoted\" \\ title");
  CHECK(data[0]["end"] == std::llround(timeline.seconds * 1e6));
  CHECK(data[0]["packs"][0].size() == plan.forward.packs.size());
  check_stages(data[0], plan, timeline);
  CHECK(data[0]["memory"].size() == 2);
  CHECK_FALSE(data[1].contains("memory"));
  std::size_t violins = 0;
  for (std::size_t at = page.find("<polygon"); at != std::string::npos; at = page.find("<polygon", at + 1))
    ++violins;
  CHECK(violins == 8);  // two charts, two passes, two plans
}

TEST_CASE("a page draws the pipelines that end last, as many as asked for, and says so") {
  const Plan plan = plan_of_eight();
  const Timeline timeline = time_plan(plan);
  const std::vector<PlanView> views{{&plan, &timeline, nullptr, "p"}};
  const auto ends = [&](std::size_t p) { return timeline.stages[p][0].back().finish; };
  std::ostringstream all, one;
  write_html(all, views, {});
  write_html(one, views, {}, {.most_tasks = 1});
  CHECK(all.str().find("of its 2 pipelines") == std::string::npos);
  CHECK(one.str().find("timelines and memory of 1 of its 2 pipelines") != std::string::npos);
  const auto data = page_data(one.str());
  REQUIRE(data[0]["pipelines"].size() == 1);
  CHECK(data[0]["stages"].size() == 1);
  CHECK(data[0]["all"] == 2);
  const std::size_t drawn = data[0]["pipelines"][0];
  CHECK(ends(drawn) >= ends(1 - drawn));
  std::size_t packs = 0;
  for (const Task task : plan.pipelines[drawn].order[0]) packs += task.pass == Pass::forward ? 1 : 0;
  CHECK(data[0]["packs"][0].size() == packs);
}

TEST_CASE("a page refuses plans without a timeline and figures without a value") {
  const Plan plan = plan_of_eight();
  const Timeline timeline = time_plan(plan);
  const std::vector<PlanView> views{{&plan, &timeline, nullptr, "p"}};
  std::ostringstream out;
  CHECK_THROWS_WITH(write_html(out, {}, {}), Catch::Contains("0 plans"));
  CHECK_THROWS_WITH(write_html(out, std::vector<PlanView>{{&plan, nullptr, nullptr, ""}}, {}),
                    Catch::Contains("lacks its timeline"));
  CHECK_THROWS_WITH(write_html(out, views, std::vector<PageFigure>{{"step", {}}}),
                    Catch::Contains("figure 'step' has 0 values; expected one for each of the 1 plans"));
  CHECK(out.str().empty());
}

TEST_CASE("metrics are what their names say") {
  Plan plan;
  plan.tokens = {10, 20, 30};
  plan.deferred = {1};
  plan.pipelines.resize(2);
  const auto add = [](PassPlan& pass, std::vector<PipelineId> members, double a, double b) {
    pass.packs.close();
    for (const PipelineId p : members) pass.pipelines.add(p);
    pass.pipelines.close();
    pass.seconds.add(a);
    pass.seconds.add(b);
    pass.seconds.close();
  };
  add(plan.forward, {0, 1}, 1, 1);
  add(plan.forward, {0}, 3, 1);
  add(plan.forward, {1}, 1, 1);
  add(plan.backward, {0}, 2, 2);
  add(plan.backward, {1}, 4, 2);
  plan.step.peak_bytes = {{5, 9}, {7, 1}};
  const PlanMetrics metrics = plan_metrics(plan);
  CHECK(metrics.max_over_mean_forward == Approx(4.0 / 3.0));
  CHECK(metrics.max_over_mean_backward == 1.0);
  CHECK(metrics.replica_imbalance == 1.0);  // 2 + 4 + 4 and 2 + 2 + 6
  // Stage by stage: 1 + 3 + 2 and 1 + 1 + 2; 1 + 1 + 4 and 1 + 1 + 2.
  CHECK(metrics.busiest_stage_imbalance == 1.0);
  CHECK(metrics.peak_bytes == 9);
  CHECK(metrics.packs == 3);
  CHECK(metrics.tokens == 40);
}
#endif
