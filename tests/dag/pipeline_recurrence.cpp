#include "slimpack/dag/pipeline_recurrence.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "slimpack/dag/timeline.hpp"

using namespace slimpack;

namespace {

struct Pipeline {
  std::size_t stages, micro_batches;
  std::vector<std::int64_t> forward, backward;  // [stage * micro_batches + micro-batch]
};

/// 1F1B as a task graph: tasks 0 … pm - 1 are the forward passes, the rest the backward passes.
std::int64_t makespan_by_graph(const Pipeline& pipeline, std::int64_t transfer) {
  const std::size_t p = pipeline.stages, m = pipeline.micro_batches;
  std::vector<Edge> edges;
  std::vector<std::int64_t> lags;
  const auto add = [&](std::size_t from, std::size_t to, std::int64_t lag) {
    edges.push_back({static_cast<TaskId>(from), static_cast<TaskId>(to)});
    lags.push_back(lag);
  };
  for (std::size_t s = 0; s < p; ++s) {
    std::vector<std::size_t> order;
    std::size_t next = 0;
    for (std::size_t k = 0; k < m; ++k) {
      while (next < m && next < k + p - s) order.push_back(s * m + next++);
      order.push_back(p * m + s * m + k);
    }
    for (std::size_t i = 1; i < order.size(); ++i) add(order[i - 1], order[i], 0);
    for (std::size_t j = 0; s + 1 < p && j < m; ++j) {
      add(s * m + j, (s + 1) * m + j, transfer);
      add((p + s + 1) * m + j, (p + s) * m + j, transfer);
    }
  }
  std::vector<std::int64_t> weights = pipeline.forward;
  weights.insert(weights.end(), pipeline.backward.begin(), pipeline.backward.end());
  const TaskGraph graph = build_task_graph(2 * p * m, edges);
  return calculate_times(graph, graph.arrange_tasks(weights), graph.arrange_edges(lags)).total;
}

}  // namespace

TEST_CASE("the recurrence of 1F1B agrees with its task graph") {
  PipelineRecurrence<std::int64_t> recurrence;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    Pipeline pipeline{1 + random() % 7, 1 + random() % 12, {}, {}};
    for (std::size_t i = 0; i < pipeline.stages * pipeline.micro_batches; ++i) {
      pipeline.forward.push_back(static_cast<std::int64_t>(random() % 20));
      pipeline.backward.push_back(static_cast<std::int64_t>(random() % 20));
    }
    const auto transfer = static_cast<std::int64_t>(random() % 4);
    const std::size_t m = pipeline.micro_batches;
    const auto makespan = recurrence(
        pipeline.stages, m, [&](std::size_t s, std::size_t j) { return pipeline.forward[s * m + j]; },
        [&](std::size_t s, std::size_t k) { return pipeline.backward[s * m + k]; }, transfer);
    CHECK(makespan == makespan_by_graph(pipeline, transfer));
  }
}

TEST_CASE("equal micro-batches take (m + p - 1)(f + b)") {
  PipelineRecurrence<> recurrence;
  for (std::size_t p = 1; p <= 9; ++p) {
    for (std::size_t m = 1; m <= 20; ++m) {
      INFO("p " << p << ", m " << m);
      const double makespan = recurrence(
          p, m, [](auto, auto) { return 1.0; }, [](auto, auto) { return 2.0; });
      CHECK(makespan == static_cast<double>(m + p - 1) * 3.0);
    }
  }
}

TEST_CASE("a pipeline without stages or micro-batches takes no time") {
  PipelineRecurrence<> recurrence;
  const auto one = [](std::size_t, std::size_t) { return 1.0; };
  CHECK(recurrence(0, 3, one, one) == 0.0);
  CHECK(recurrence(3, 0, one, one) == 0.0);
}
