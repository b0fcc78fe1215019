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
    CHECK(relaxation.order().size() == random.tasks);
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
