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
    edges.push_back({sources + 1, sources});
    CHECK_THROWS_WITH(relaxation(build_graph(sources + 2, edges), weights), Catch::Contains(" -> 0"));
  }
}
