#include "slimpack/plan/violins.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/planners/slimpack.hpp"

using namespace slimpack;

namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

/// Numbers that stand in attributes `name="…"` of a drawing.
std::vector<double> attributes(const std::string& text, const std::string& name) {
  std::vector<double> found;
  const std::string begin = " " + name + "=\"";
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1))
    found.push_back(std::stod(text.substr(at + begin.size())));
  return found;
}

Plan random_plan(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::lognormal_distribution<double> spread(8.0, 1.5);
  std::vector<Tokens> lengths;
  for (int i = 0; i < 40; ++i)
    lengths.push_back(std::clamp<Tokens>(static_cast<Tokens>(spread(random)), 1, 65536));
  const Job job{.model = transformer_preset("llama-7b"),
                .device = device_preset("h100"),
                .layout = {.dp = 2, .tp = 4, .pp = 2}};
  return plan_slimpack(lengths, job);
}

}  // namespace

TEST_CASE("quantiles lie between neighbours, and a density is where values are") {
  const auto quantile = [](std::vector<double> values, double q) { return quantile_of_sorted(values, q); };
  CHECK(quantile({1, 2, 4}, 0.5) == 2);
  CHECK(quantile({1, 2, 4}, 0.75) == 3);
  CHECK(quantile({7}, 0.3) == 7);
  CHECK_THROWS_WITH(quantile({}, 0.5), Catch::Contains("there are no values"));
  // Two clusters: the larger one is the peak, between them is a gap, and nothing is beyond the values.
  std::vector<double> values(60, 2.0);
  values.insert(values.end(), 20, 8.0);
  const auto wide = density(values, 10.0, 101);
  CHECK(wide[20] == Approx(1.0));
  CHECK(wide[80] > 0.2);
  CHECK(wide[80] < 0.5);
  CHECK(wide[50] < 0.5 * wide[80]);
  CHECK(wide[10] == 0.0);
  CHECK(wide[90] == 0.0);
  CHECK_THROWS_WITH(density(values, 1.0, 1), Catch::Contains("1 places"));
}

TEST_CASE("durations' charts hold every pack, and their largest shares are the plan's worst imbalance") {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    const Plan plan = random_plan(seed);
    const PlanMetrics metrics = plan_metrics(plan);
    const std::vector<ViolinChart> charts = duration_charts(std::vector<NamedPlan>{{&plan, "p"}});
    REQUIRE(charts.size() == 2);
    for (const ViolinChart& chart : charts) {
      REQUIRE(chart.violins.size() == 2);
      for (const Violin& violin : chart.violins)
        CHECK(std::is_sorted(violin.values.begin(), violin.values.end()));
    }
    CHECK(charts[0].violins[0].values.size() == plan.forward.packs.size());
    CHECK(charts[0].violins[1].values.size() == plan.backward.packs.size());
    CHECK(charts[1].violins[0].values.back() == Approx(metrics.max_over_mean_forward));
    CHECK(charts[1].violins[1].values.back() == Approx(metrics.max_over_mean_backward));
  }
}

TEST_CASE("many values are drawn as a sample that keeps the least and the largest") {
  std::vector<double> values(100000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(values.size() - i);
  const std::vector<double> sample = detail::sorted_sample(values);
  CHECK(sample.size() < 2000);
  CHECK(sample.front() == 1.0);
  CHECK(sample.back() == 100000.0);
  CHECK(quantile_of_sorted(sample, 0.5) == Approx(50000.0).epsilon(0.01));
}

TEST_CASE("a drawing has each violin with its quartiles, within its bounds, and no markup of a name's") {
  const ViolinChart chart{.title = "times <of> & packs",
                          .factor = 1e3,
                          .unit = " ms",
                          .violins = {{"equal", Pass::forward, std::vector<double>(9, 0.25)},
                                      {"spread & more", Pass::backward, {0.0, 0.1, 0.2, 0.5}},
                                      {"none", Pass::forward, {}}}};
  std::ostringstream out;
  write_violins(out, std::vector<ViolinChart>{chart, chart});
  const std::string text = out.str();
  CHECK(count(text, "<svg") == 3);
  CHECK(count(text, "</svg>") == 3);
  CHECK(count(text, "<polygon") == 4);
  CHECK(count(text, "class=\"quartile\"") == 12);
  CHECK(count(text, "class=\"B\"") == 2);
  CHECK(count(text, "spread &amp; more</text>") == 2);
  CHECK(count(text, "times &lt;of&gt; &amp; packs</text>") == 2);
  CHECK(count(text, "500 ms") == 2);
  CHECK(count(text, "nan") == 0);
  CHECK(count(text, "inf") == 0);
  const double width = attributes(text, "width").front();
  for (const char* name : {"x", "x1", "x2"}) {
    for (const double x : attributes(text, name)) {
      CHECK(x >= 0.0);
      CHECK(x <= width);
    }
  }
  for (const double y : attributes(text, "y2")) {
    CHECK(y >= 0.0);
    CHECK(y <= detail::violin_chart_height);
  }
}

TEST_CASE("without any value a chart is drawn as its axis and names") {
  std::string out;
  append_violins(out, {.title = "empty", .factor = 1.0, .unit = "", .violins = {{"a", Pass::forward, {}}}});
  CHECK(count(out, "<polygon") == 0);
  CHECK(count(out, ">a</text>") == 1);
  CHECK(count(out, "nan") == 0);
}
