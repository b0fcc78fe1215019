#include "slimpack/dag/graph.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "slimpack/dag/order.hpp"
#include "slimpack/dag/task_graph.hpp"
#include "tests/dag/random_graph.hpp"

using namespace slimpack;

namespace {

std::vector<TaskId> list(std::span<const TaskId> tasks) { return {tasks.begin(), tasks.end()}; }

std::string error_of(const auto& action) {
  try {
    action();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a graph keeps the order of each task's edges, sorted by source or not") {
  const std::vector<Edge> sorted = {{0, 2}, {0, 1}, {2, 1}}, unsorted = {{2, 1}, {0, 2}, {0, 1}};
  for (const auto& edges : {sorted, unsorted}) {
    const Graph graph = build_graph(4, edges);
    CHECK(graph.size() == 4);
    CHECK(graph.edges() == 3);
    CHECK(list(graph.successors(0)) == std::vector<TaskId>{2, 1});
    CHECK(graph.successors(1).empty());
    CHECK(list(graph.successors(2)) == std::vector<TaskId>{1});
    CHECK(graph.successors(3).empty());
    for (TaskId t = 0; t < 4; ++t) {
      for (std::size_t i = 0; i < graph.successors(t).size(); ++i) {
        CHECK(edges[graph.edge_at(graph.first_slot(t) + i)] == Edge{t, graph.successors(t)[i]});
      }
    }
  }
}

TEST_CASE("an edge to a task that doesn't exist is named") {
  CHECK_THROWS_WITH(build_graph(2, std::vector<Edge>{{0, 1}, {1, 2}}),
                    "edge 1 goes from task 1 to task 2; expected tasks below 2");
  CHECK_THROWS_WITH(build_graph(2, std::vector<Edge>{{7, 1}}),
                    "edge 0 goes from task 7 to task 1; expected tasks below 2");
  CHECK_THROWS_WITH(build_task_graph(2, std::vector<Edge>{{0, 5}}),
                    "edge 0 goes from task 0 to task 5; expected tasks below 2");
}

TEST_CASE("a topological order puts every task after its predecessors") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    const testing::RandomGraph random(seed);
    const std::vector<TaskId> order = topological_order(build_graph(random.tasks, random.edges));
    REQUIRE(order.size() == random.tasks);
    std::vector<std::size_t> place(random.tasks, random.tasks);
    for (std::size_t p = 0; p < order.size(); ++p) place[order[p]] = p;
    CHECK(std::count(place.begin(), place.end(), random.tasks) == 0);
    for (const Edge& edge : random.edges) CHECK(place[edge.from] < place[edge.to]);
  }
}

TEST_CASE("a renumbered graph has the same edges, all of them leading to a higher position") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    const testing::RandomGraph random(seed);
    const TaskGraph graph = build_task_graph(random.tasks, random.edges);
    REQUIRE(graph.size() == random.tasks);
    REQUIRE(graph.edges() == random.edges.size());
    std::vector<std::size_t> times_seen(random.edges.size(), 0);
    for (std::size_t p = 0; p < graph.size(); ++p) {
      CHECK(graph.position(graph.original(p)) == p);
      const auto predecessors = graph.predecessors(p);
      CHECK(std::is_sorted(predecessors.begin(), predecessors.end()));
      std::size_t slot = graph.first_slot(p);
      for (const TaskId before : predecessors) {
        CHECK(before < p);
        const EdgeId edge = graph.edge_at(slot++);
        CHECK(random.edges[edge] == Edge{graph.original(before), graph.original(p)});
        ++times_seen[edge];
      }
    }
    CHECK(std::count(times_seen.begin(), times_seen.end(), 1u) ==
          static_cast<std::ptrdiff_t>(random.edges.size()));
  }
}

TEST_CASE("a cycle is named by the tasks on it, and only by those") {
  // 5 leads to the cycle 1 -> 3 -> 2 -> 1, which leads to 4.
  const std::vector<Edge> edges = {{5, 1}, {1, 3}, {3, 2}, {2, 1}, {2, 4}, {0, 5}};
  const auto name = [](TaskId task) { return std::string(1, static_cast<char>('a' + task)); };
  const std::vector<std::string> rotations = {"b -> d -> c -> b", "d -> c -> b -> d", "c -> b -> d -> c"};
  const auto names_the_cycle = [&](const std::string& message) {
    return std::any_of(rotations.begin(), rotations.end(), [&](const std::string& r) {
      return message == "tasks wait for each other: " + r + "; expected a graph without cycles";
    });
  };
  CHECK(names_the_cycle(error_of([&] { (void)topological_order(build_graph(6, edges), name); })));
  CHECK(names_the_cycle(error_of([&] { (void)build_task_graph(6, edges, name); })));
}

TEST_CASE("a task that waits for itself is a cycle") {
  CHECK(error_of([] {
          (void)build_task_graph(2, std::vector<Edge>{{1, 1}});
        }) == "tasks wait for each other: 1 -> 1; expected a graph without cycles");
}

TEST_CASE("a long cycle is cut short") {
  std::vector<Edge> edges;
  for (TaskId t = 0; t < 100; ++t) edges.push_back({t, (t + 1) % 100});
  CHECK_THROWS_WITH(build_task_graph(100, edges), Catch::Contains("(68 more)"));
}

TEST_CASE("random graphs with one edge turned back are refused exactly if that closes a cycle") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    testing::RandomGraph random(seed);
    if (random.edges.empty()) continue;
    const Edge edge = random.edges[random.random() % random.edges.size()];
    random.edges.push_back({edge.to, edge.from});
    CHECK_THROWS_AS(build_task_graph(random.tasks, random.edges), InvalidInput);
  }
}

TEST_CASE("a graph without tasks has an empty order") {
  CHECK(topological_order(build_graph(0, {})).empty());
  CHECK(build_task_graph(0, {}).size() == 0);
}

TEST_CASE("values are arranged by position, and refused in the wrong number") {
  const TaskGraph graph = build_task_graph(3, std::vector<Edge>{{2, 0}, {0, 1}});
  CHECK(graph.arrange_tasks(std::vector<int>{10, 11, 12}) == std::vector<int>{12, 10, 11});
  CHECK(graph.arrange_edges(std::vector<char>{'a', 'b'}) == std::vector<char>{'a', 'b'});
  CHECK_THROWS_WITH(graph.arrange_tasks(std::vector<int>{1}), "1 values for 3 tasks; expected one for each");
  CHECK_THROWS_WITH(graph.arrange_edges(std::vector<int>{1}), "1 values for 2 edges; expected one for each");
}
