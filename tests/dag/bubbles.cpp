#include "slimpack/dag/bubbles.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "slimpack/dag/task_times.hpp"

using namespace slimpack;

namespace {

using Split = BubbleSplit<std::int64_t>;

/// Resources that each run their tasks one after another, with random edges between them.
struct Lanes {
  explicit Lanes(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const std::size_t lanes = 1 + random() % 4;
    std::vector<TaskId> last(lanes, ~TaskId{0});
    tasks.resize(lanes);
    for (TaskId t = 0; t < 30; ++t) {
      const std::size_t lane = random() % lanes;
      if (!tasks[lane].empty()) edges.push_back({tasks[lane].back(), t});
      for (int e = 0; e < 2 && t > 0; ++e) edges.push_back({static_cast<TaskId>(random() % t), t});
      tasks[lane].push_back(t);
      weights.push_back(static_cast<std::int64_t>(random() % 9));
      other_weights.push_back(static_cast<std::int64_t>(random() % 9));
    }
  }
  std::vector<std::vector<TaskId>> tasks;  // [lane]
  std::vector<Edge> edges;
  std::vector<std::int64_t> weights, other_weights;  // [task]
};

std::vector<TaskId> positions(const TaskGraph& graph, const std::vector<TaskId>& tasks) {
  std::vector<TaskId> result;
  for (const TaskId task : tasks) result.push_back(graph.position(task));
  return result;
}

}  // namespace

TEST_CASE("the four causes sum to all idle time, exactly, and none is negative") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    const Lanes lanes(seed);
    const TaskGraph graph = build_task_graph(30, lanes.edges);
    const auto times = calculate_times(graph, graph.arrange_tasks(lanes.weights));
    const auto balanced = calculate_times(graph, graph.arrange_tasks(lanes.other_weights));
    for (const auto& lane : lanes.tasks) {
      std::int64_t busy = 0;
      for (const TaskId t : lane) busy += lanes.weights[t];
      const std::vector<TaskId> tasks = positions(graph, lane);
      const Split split = split_bubbles<std::int64_t>(tasks, times, balanced);
      CHECK(split.busy == busy);
      CHECK(split.idle() == times.total - busy);
      CHECK(split.warm_up >= 0);
      CHECK(split.dependency >= 0);
      CHECK(split.imbalance >= 0);
      CHECK(split.cool_down >= 0);
      const Split blind = split_bubbles<std::int64_t>(tasks, times, times);
      CHECK(blind.imbalance == 0);
      CHECK(blind.dependency == split.dependency + split.imbalance);
    }
  }
}

TEST_CASE("a gap that equal durations would close is imbalance") {
  // One resource runs tasks 0, 2, another 1, 3; 3 waits for 2. Task 2 is long.
  const TaskGraph graph = build_task_graph(4, std::vector<Edge>{{0, 2}, {1, 3}, {2, 3}, {0, 1}});
  const auto times_of = [&](const std::vector<std::int64_t>& weights) {
    return calculate_times(graph, graph.arrange_tasks(weights));
  };
  const auto times = times_of({2, 4, 8, 1});
  const std::vector<TaskId> tasks = positions(graph, {1, 3});
  const Split split = split_bubbles<std::int64_t>(tasks, times, times_of({2, 4, 4, 1}));
  CHECK(split.warm_up == 2);
  CHECK(split.imbalance == 4);
  CHECK(split.dependency == 0);
  CHECK(split.cool_down == 0);
  CHECK(split.busy == 5);
  const Split partly = split_bubbles<std::int64_t>(tasks, times, times_of({2, 4, 5, 1}));
  CHECK(partly.imbalance == 3);
  CHECK(partly.dependency == 1);
}

TEST_CASE("a resource without tasks is idle from the start") {
  TaskTimes<std::int64_t> times;
  times.total = 7;
  const Split split = split_bubbles<std::int64_t>({}, times, times);
  CHECK(split.warm_up == 7);
  CHECK(split.idle() == 7);
  CHECK(split.ratio() == 1.0);
  CHECK(Split{}.ratio() == 0.0);
}

TEST_CASE("tasks that overlap on their resource are refused") {
  const TaskGraph graph = build_task_graph(2, {});
  const auto times = calculate_times(graph, std::vector<std::int64_t>{3, 3});
  CHECK_THROWS_AS(split_bubbles<std::int64_t>(std::vector<TaskId>{0, 1}, times, times), InvalidInput);
}
