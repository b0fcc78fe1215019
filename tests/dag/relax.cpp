#include "slimpack/dag/relax.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "tests/dag/random_graph.hpp"

using namespace slimpack;

TEST_CASE("relaxing in topological order gives the naive fixed point") {
  Relaxation<std::int64_t> relaxation;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    const testing::RandomGraph random(seed);
    const auto total = relaxation(build_graph(random.tasks, random.edges), random.weights);
    const auto expected = testing::naive_finish(random, false);
    CHECK(total == (expected.empty() ? 0 : *std::max_element(expected.begin(), expected.end())));
    for (TaskId t = 0; t < random.tasks; ++t) CHECK(relaxation.start(t) + random.weights[t] == expected[t]);
  }
}

TEST_CASE("edges relax as the graph that they are") {
  Relaxation<std::int64_t> relaxation, expected;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    testing::RandomGraph random(seed);
    for (const bool in_order : {false, true}) {
      if (in_order) {
        std::stable_sort(random.edges.begin(), random.edges.end(),
                         [](const Edge& a, const Edge& b) { return a.from < b.from; });
      }
      const auto total = expected(build_graph(random.tasks, random.edges), random.weights);
      CHECK(relaxation(random.edges, random.weights) == total);
      for (TaskId t = 0; t < random.tasks; ++t) CHECK(relaxation.start(t) == expected.start(t));
    }
  }
}

TEST_CASE("edges that are no graph, or one with a cycle, are refused") {
  Relaxation<> relaxation;
  const std::vector<double> weights(3, 1.0);
  for (const std::vector<Edge>& edges :
       {std::vector<Edge>{{0, 1}, {1, 2}, {2, 1}}, std::vector<Edge>{{2, 1}, {0, 1}, {1, 2}}}) {
    CHECK_THROWS_WITH(relaxation(edges, weights),
                      Catch::Contains("1 -> 2 -> 1") || Catch::Contains("2 -> 1 -> 2"));
  }
  CHECK_THROWS_WITH(relaxation(std::vector<Edge>{{0, 1}, {1, 3}}, weights),
                    "edge 1 goes from task 1 to task 3; expected tasks below 3");
  CHECK_THROWS_WITH(relaxation(std::vector<Edge>{{0, 1}, {3, 1}}, weights),
                    "edge 1 goes from task 3 to task 1; expected tasks below 3");
  CHECK(relaxation(std::vector<Edge>{{0, 1}, {0, 2}, {1, 2}}, weights) == 3.0);  // all upward
  CHECK(relaxation(std::vector<Edge>{}, std::vector<double>{}) == 0.0);
}

TEST_CASE("relaxing refuses cycles and missing weights") {
  Relaxation<> relaxation;
  const Graph cycle = build_graph(3, std::vector<Edge>{{0, 1}, {1, 2}, {2, 1}});
  CHECK_THROWS_WITH(relaxation(cycle, std::vector<double>(3, 1.0)),
                    Catch::Contains("1 -> 2 -> 1") || Catch::Contains("2 -> 1 -> 2"));
  CHECK_THROWS_WITH(relaxation(cycle, std::vector<double>(2, 1.0)),
                    "2 weights for 3 tasks; expected one for each");
}

TEST_CASE("relaxing counts more predecessors than a byte holds") {
  Relaxation<std::int64_t> relaxation;
  for (const TaskId sources : {254u, 255u, 256u, 257u, 512u, 70000u}) {
    INFO(sources << " tasks before task 0");
    std::vector<Edge> edges;
    for (TaskId source = 1; source <= sources; ++source) edges.push_back({source, 0});
    edges.push_back({0, sources + 1});
    std::vector<std::int64_t> weights(sources + 2, 3);
    weights[sources] = 7;
    CHECK(relaxation(build_graph(sources + 2, edges), weights) == 13);
    CHECK(relaxation.start(0) == 7);
    std::rotate(edges.begin(), edges.end() - 1, edges.end());
    CHECK(relaxation(edges, weights) == 13);  // sorted, no graph is built where bytes suffice
    CHECK(relaxation.start(0) == 7);
    edges.push_back({sources + 1, sources});
    CHECK_THROWS_WITH(relaxation(build_graph(sources + 2, edges), weights), Catch::Contains(" -> 0"));
  }
}
