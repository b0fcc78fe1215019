#include "slimpack/dag/chain_relax.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "slimpack/dag/chain_graph.hpp"
#include "slimpack/dag/task_graph.hpp"
#include "slimpack/dag/task_times.hpp"

using namespace slimpack;

namespace {

/// Random chains, empty ones among them, and random edges that agree with some order of all tasks. Edges within a
/// chain and repetitions occur.
struct RandomChains {
  explicit RandomChains(std::uint64_t seed) : random(seed) {
    const std::size_t chains = random() % 9;
    for (std::size_t c = 0; c < chains; ++c) lengths.push_back(random() % 4 == 0 ? 0 : random() % 12);
    tasks = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
    const std::vector<std::size_t> place = interleave();
    const std::size_t count = tasks < 2 ? 0 : random() % (3 * tasks);
    for (std::size_t e = 0; e < count; ++e) {
      auto a = static_cast<TaskId>(random() % tasks), b = static_cast<TaskId>(random() % tasks);
      if (place[a] > place[b]) std::swap(a, b);
      if (a != b) edges.push_back({a, b});
    }
    if (random() % 2 == 0) {
      std::stable_sort(edges.begin(), edges.end(),
                       [](const Edge& a, const Edge& b) { return a.from < b.from; });
    }
    for (std::size_t t = 0; t < tasks; ++t) weights.push_back(static_cast<std::int64_t>(random() % 20));
    for (std::size_t e = 0; e < edges.size(); ++e) lags.push_back(static_cast<std::int64_t>(random() % 5));
  }

  /// Place of each task in a random order of all that keeps the chains' own. [task]
  std::vector<std::size_t> interleave() {
    std::vector<std::size_t> owner;
    for (std::size_t c = 0; c < lengths.size(); ++c) owner.insert(owner.end(), lengths[c], c);
    std::shuffle(owner.begin(), owner.end(), random);
    std::vector<std::size_t> next(lengths.size(), 0), place(tasks);
    std::exclusive_scan(lengths.begin(), lengths.end(), next.begin(), std::size_t{0});
    for (std::size_t i = 0; i < owner.size(); ++i) place[next[owner[i]]++] = i;
    return place;
  }

  /// All dependencies as edges, those within chains after the others.
  [[nodiscard]] std::vector<Edge> all_edges() const {
    std::vector<Edge> all = edges;
    TaskId task = 0;
    for (const std::size_t length : lengths) {
      for (std::size_t i = 1; i < length; ++i, ++task) all.push_back({task, task + 1});
      if (length > 0) ++task;
    }
    return all;
  }

  std::mt19937_64 random;
  std::vector<std::size_t> lengths;  ///< [chain]
  std::size_t tasks = 0;
  std::vector<Edge> edges;
  std::vector<std::int64_t> weights;  ///< [task]
  std::vector<std::int64_t> lags;     ///< [edge]
};

std::string number(TaskId task) { return std::to_string(task); }

}  // namespace

TEST_CASE("chains are timed as the graph of all their edges, with and without lags") {
  ChainGraph chains;
  ChainRelaxation<std::int64_t> relaxation;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    INFO("seed " << seed);
    const RandomChains random(seed);
    const TaskGraph graph = build_task_graph(random.tasks, random.all_edges());
    build_chain_graph(random.lengths, random.edges, chains);
    REQUIRE(chains.size() == random.tasks);
    for (const bool with_lags : {false, true}) {
      auto lags = with_lags ? random.lags : std::vector<std::int64_t>(random.edges.size(), 0);
      const auto total =
          with_lags ? relaxation(chains, random.weights, lags, number) : relaxation(chains, random.weights);
      lags.resize(graph.edges(), 0);
      const auto times = calculate_times<std::int64_t>(graph, graph.arrange_tasks(random.weights),
                                                       graph.arrange_edges(lags));
      CHECK(total == times.total);
      for (TaskId t = 0; t < random.tasks; ++t) CHECK(relaxation.start(t) == times.start[graph.position(t)]);
    }
  }
}

TEST_CASE("chains that wait for each other one by one are followed") {
  // Every task waits for the task at the same place in another chain, in an order that no sweep follows.
  constexpr std::size_t chains = 300, length = 40;
  std::vector<std::size_t> order(chains);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(3));
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < length; ++i) {
    for (std::size_t k = 1; k < chains; ++k) {
      edges.push_back(
          {static_cast<TaskId>(order[k - 1] * length + i), static_cast<TaskId>(order[k] * length + i)});
    }
    if (i + 1 == length) break;
    edges.push_back({static_cast<TaskId>(order.back() * length + i),
                     static_cast<TaskId>(order.front() * length + i + 1)});
  }
  const std::vector<std::size_t> lengths(chains, length);
  const ChainGraph graph = build_chain_graph(lengths, edges);
  const std::vector<std::int64_t> weights(graph.size(), 2);
  const auto task = static_cast<TaskId>(order[5] * length + 7);
  ChainRelaxation<std::int64_t> relaxation;
  CHECK(relaxation(graph, weights) == 2 * std::int64_t{chains * length});
  CHECK(relaxation.start(task) == 2 * (7 * std::int64_t{chains} + 5));
  const std::vector<std::int64_t> lags(edges.size(), 3);
  CHECK(relaxation(graph, weights, lags, number) == 5 * std::int64_t{chains * length} - 3);
  CHECK(relaxation.start(task) == 5 * (7 * std::int64_t{chains} + 5));

  edges.push_back({static_cast<TaskId>(order.back() * length + length - 1), task});
  CHECK_THROWS_WITH(relaxation(build_chain_graph(lengths, edges), weights),
                    Catch::StartsWith("tasks wait for each other: "));
  CHECK(relaxation(graph, weights) == 2 * std::int64_t{chains * length});
}

TEST_CASE("chains without edges run side by side") {
  const ChainGraph graph = build_chain_graph(std::vector<std::size_t>{20, 0, 30}, {});
  ChainRelaxation<std::int64_t> relaxation;
  CHECK(relaxation(graph, std::vector<std::int64_t>(50, 1)) == 30);
  CHECK(relaxation.start(19) == 19);
  CHECK(relaxation.start(20) == 0);
}

TEST_CASE("chains know their edges by slot") {
  const std::vector<Edge> edges = {{3, 1}, {0, 4}, {3, 4}, {0, 3}};
  const ChainGraph graph = build_chain_graph(std::vector<std::size_t>{2, 0, 3}, edges);
  CHECK(graph.chains() == 3);
  CHECK(std::ranges::equal(graph.begins(), std::vector<TaskId>{0, 2, 2, 5}));
  CHECK(std::ranges::equal(graph.edges(), std::vector<Edge>{{0, 4}, {0, 3}, {3, 1}, {3, 4}}));
  CHECK(std::ranges::equal(graph.first_slots(), std::vector<std::uint32_t>{0, 2, 2, 4}));
  CHECK(std::ranges::equal(graph.predecessors(), std::vector<std::uint32_t>{0, 1, 0, 1, 2}));
  const std::vector<EdgeId> given = {1, 3, 0, 2};
  for (std::size_t slot = 0; slot < given.size(); ++slot) CHECK(graph.edge_at(slot) == given[slot]);
}

TEST_CASE("a cycle among chains is named") {
  ChainRelaxation<> relaxation;
  const std::vector<double> weights(4, 1.0);
  const ChainGraph crossed =
      build_chain_graph(std::vector<std::size_t>{2, 2}, std::vector<Edge>{{1, 2}, {3, 0}});
  const auto name = [](TaskId task) { return "task " + std::to_string(task); };
  CHECK_THROWS_WITH(relaxation(crossed, weights, {}, name),
                    Catch::StartsWith("tasks wait for each other: ") && Catch::Contains("task 0 -> task 1") &&
                        Catch::Contains("task 1 -> task 2") && Catch::Contains("task 2 -> task 3") &&
                        Catch::Contains("task 3 -> task 0"));
  for (const Edge wrong : {Edge{1, 0}, Edge{2, 2}}) {
    const ChainGraph graph = build_chain_graph(std::vector<std::size_t>{4}, std::vector<Edge>{wrong});
    CHECK_THROWS_AS(relaxation(graph, weights), InvalidInput);
  }
}

TEST_CASE("chains refuse what doesn't fit them") {
  const std::vector<std::size_t> lengths = {2, 1};
  CHECK_THROWS_WITH(build_chain_graph(lengths, std::vector<Edge>{{0, 2}, {1, 3}}),
                    "edge 1 goes from task 1 to task 3; expected tasks below 3");
  CHECK_THROWS_WITH(build_chain_graph(lengths, std::vector<Edge>{{0, 2}, {7, 1}}),
                    "edge 1 goes from task 7 to task 1; expected tasks below 3");
  CHECK_THROWS_WITH(
      build_chain_graph(std::vector<std::size_t>{4, 0xfffffffb}, {}),
      "4294967291 tasks in chain 1, after 4 in those before; expected fewer than 4294967295 in all");
  const ChainGraph graph = build_chain_graph(lengths, std::vector<Edge>{{0, 2}});
  ChainRelaxation<> relaxation;
  CHECK_THROWS_WITH(relaxation(graph, std::vector<double>(2)),
                    "2 weights for 3 tasks; expected one for each");
  CHECK_THROWS_WITH(relaxation(graph, std::vector<double>(3), std::vector<double>(2), number),
                    "2 lags for 1 edges; expected one for each, or none");
  CHECK(relaxation(build_chain_graph({}, {}), {}) == 0.0);
}
