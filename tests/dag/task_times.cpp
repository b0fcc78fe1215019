#include "slimpack/dag/task_times.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "slimpack/dag/critical_path.hpp"
#include "tests/dag/random_graph.hpp"

using namespace slimpack;

TEST_CASE("times of random graphs are those of the naive fixed point") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    const testing::RandomGraph random(seed);
    const TaskGraph graph = build_task_graph(random.tasks, random.edges);
    const auto weights = graph.arrange_tasks(random.weights);
    for (const bool with_lags : {false, true}) {
      const auto lags = with_lags ? graph.arrange_edges(random.lags) : std::vector<std::int64_t>{};
      const auto times = calculate_times(graph, weights, lags);
      const auto expected = testing::naive_finish(random, with_lags);
      std::int64_t total = 0;
      for (TaskId t = 0; t < random.tasks; ++t) {
        const TaskId p = graph.position(t);
        CHECK(times.finish[p] == expected[t]);
        CHECK(times.start[p] == expected[t] - random.weights[t]);
        total = std::max(total, expected[t]);
      }
      CHECK(times.total == total);
      std::vector<std::int64_t> finish;
      CHECK(longest_path<std::int64_t>(graph, weights, lags, finish) == total);
      CHECK(finish == times.finish);
    }
  }
}

TEST_CASE("the critical path of random graphs is a path, without gaps, as long as the total") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    const testing::RandomGraph random(seed);
    if (random.tasks == 0) continue;
    const TaskGraph graph = build_task_graph(random.tasks, random.edges);
    const auto weights = graph.arrange_tasks(random.weights);
    const auto lags = graph.arrange_edges(random.lags);
    const auto times = calculate_times(graph, weights, lags);
    const auto path = critical_path(graph, times, lags);
    REQUIRE(!path.empty());
    CHECK(times.start[path.front()] == 0);
    CHECK(times.finish[path.back()] == times.total);
    std::int64_t length = weights[path.front()];
    for (std::size_t i = 1; i < path.size(); ++i) {
      // Parallel edges: the one with the longest lag decides.
      std::int64_t lag = -1;
      const auto before = graph.predecessors(path[i]);
      for (std::size_t e = 0; e < before.size(); ++e) {
        if (before[e] == path[i - 1]) lag = std::max(lag, lags[graph.first_slot(path[i]) + e]);
      }
      REQUIRE(lag >= 0);
      length += lag + weights[path[i]];
    }
    CHECK(length == times.total);
  }
}

TEST_CASE("a single task, and none") {
  const TaskGraph one = build_task_graph(1, {});
  const auto times = calculate_times(one, std::vector<double>{2.5});
  CHECK(times.start == std::vector<double>{0.0});
  CHECK(times.finish == std::vector<double>{2.5});
  CHECK(times.total == 2.5);
  CHECK(critical_path(one, times) == std::vector<TaskId>{0});
  const TaskGraph none = build_task_graph(0, {});
  const auto no_times = calculate_times(none, std::vector<double>{});
  CHECK(no_times.total == 0.0);
  CHECK(critical_path(none, no_times).empty());
}

TEST_CASE("weights and lags have to fit the graph") {
  const TaskGraph graph = build_task_graph(2, std::vector<Edge>{{0, 1}});
  CHECK_THROWS_WITH(calculate_times(graph, std::vector<double>{1.0}),
                    "1 weights for 2 tasks; expected one for each");
  CHECK_THROWS_WITH(calculate_times(graph, std::vector<double>{1.0, 1.0}, std::vector<double>{1.0, 2.0}),
                    "2 lags for 1 edges; expected one for each, or none");
}
