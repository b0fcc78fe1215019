// The DAG engine compared with Boost.Graph's compressed_sparse_row_graph, on 1F1B graphs of a million tasks.
// Boost gets its edges sorted by source, for the fastest of its constructors. Items are tasks. Arguments: the
// number of stages, and whether tasks are numbered in the order in which a plan lists them (0) or in
// topological order (1).

#include <benchmark/benchmark.h>

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/topological_sort.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "slimpack/dag/chain_graph.hpp"
#include "slimpack/dag/chain_relax.hpp"
#include "slimpack/dag/critical_path.hpp"
#include "slimpack/dag/task_graph.hpp"
#include "slimpack/dag/task_times.hpp"

namespace {

using slimpack::Edge;
using slimpack::TaskId;

/// 1F1B with a million tasks, numbered as a plan lists them, stage by stage in the stage's order, or
/// topologically.
struct Instance {
  Instance(std::size_t number_of_stages, bool topological)
      : stages(number_of_stages),
        micro_batches(1'000'000 / (2 * number_of_stages)),
        tasks(2 * stages * micro_batches) {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> duration(0.5, 1.5);
    weights.resize(tasks);
    for (double& weight : weights) weight = duration(random);
    for (std::size_t s = 0; s < stages; ++s) add_stage(s);
    if (topological) renumber();
  }

  void renumber() {
    const slimpack::TaskGraph graph = slimpack::build_task_graph(tasks, edges);
    for (Edge& edge : edges) edge = {graph.position(edge.from), graph.position(edge.to)};
    std::stable_sort(edges.begin(), edges.end(),
                     [](const Edge& a, const Edge& b) { return a.from < b.from; });
    weights = graph.arrange_tasks(weights);
  }

  /// Place of a pass in its stage's order.
  [[nodiscard]] TaskId task(std::size_t s, bool backward, std::size_t j) const {
    const std::size_t lead = std::min(micro_batches, stages - 1 - s);
    std::size_t place = 0;
    if (backward) {
      place = j + std::min(micro_batches, j + lead + 1);
    } else {
      place = j <= lead ? j : 2 * j - lead;
    }
    return static_cast<TaskId>(s * 2 * micro_batches + place);
  }

  void add_stage(std::size_t s) {
    const std::size_t begin = edges.size();
    const auto end = static_cast<TaskId>((s + 1) * 2 * micro_batches);
    for (std::size_t j = 0; j < micro_batches; ++j) {
      const TaskId f = task(s, false, j), b = task(s, true, j);
      if (f + 1 < end) edges.push_back({f, f + 1});
      if (b + 1 < end) edges.push_back({b, b + 1});
      edges.push_back({f, s + 1 < stages ? task(s + 1, false, j) : b});
      if (s > 0) edges.push_back({b, task(s - 1, true, j)});
    }
    std::stable_sort(edges.begin() + static_cast<std::ptrdiff_t>(begin), edges.end(),
                     [](const Edge& a, const Edge& b) { return a.from < b.from; });
  }

  std::size_t stages, micro_batches, tasks;
  std::vector<Edge> edges;  // sorted by `from`
  std::vector<double> weights;
};

using BoostGraph =
    boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                       boost::no_property, std::uint32_t, std::uint32_t>;

BoostGraph build_boost(const Instance& instance) {
  std::vector<std::pair<TaskId, TaskId>> pairs;
  pairs.reserve(instance.edges.size());
  for (const Edge& edge : instance.edges) pairs.emplace_back(edge.from, edge.to);
  return {boost::edges_are_sorted, pairs.begin(), pairs.end(), static_cast<std::uint32_t>(instance.tasks)};
}

/// Algorithm 1 with Boost's topological order; `order` is reversed, as Boost gives it.
double relax(const BoostGraph& graph, const std::vector<TaskId>& order, const std::vector<double>& weights,
             std::vector<double>& start) {
  start.assign(weights.size(), 0.0);
  double total = 0.0;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const double finish = start[*it] + weights[*it];
    const auto [first, last] = out_edges(*it, graph);
    for (auto edge = first; edge != last; ++edge) {
      double& next = start[target(*edge, graph)];
      next = std::max(next, finish);
    }
    total = std::max(total, finish);
  }
  return total;
}

double boost_longest_path(const BoostGraph& graph, const std::vector<double>& weights,
                          std::vector<TaskId>& order, std::vector<double>& start) {
  order.clear();
  boost::topological_sort(graph, std::back_inserter(order));
  return relax(graph, order, weights, start);
}

void count(benchmark::State& state, const Instance& instance, double makespan) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(instance.tasks));
  state.counters["makespan"] = makespan;
}

const Instance& instance_of(const benchmark::State& state) {
  static std::map<std::pair<std::int64_t, std::int64_t>, Instance> made;
  const std::int64_t stages = state.range(0), topological = state.range(1);
  return made.try_emplace({stages, topological}, static_cast<std::size_t>(stages), topological != 0)
      .first->second;
}

void boost_sort_relax(benchmark::State& state) {
  const Instance& instance = instance_of(state);
  const BoostGraph graph = build_boost(instance);
  std::vector<TaskId> order;
  std::vector<double> start;
  double makespan = 0.0;
  for (auto _ : state) makespan = boost_longest_path(graph, instance.weights, order, start);
  count(state, instance, makespan);
}

void boost_build_sort_relax(benchmark::State& state) {
  const Instance& instance = instance_of(state);
  std::vector<std::pair<TaskId, TaskId>> pairs;
  for (const Edge& edge : instance.edges) pairs.emplace_back(edge.from, edge.to);
  std::vector<TaskId> order;
  std::vector<double> start;
  double makespan = 0.0;
  for (auto _ : state) {
    const BoostGraph graph(boost::edges_are_sorted, pairs.begin(), pairs.end(),
                           static_cast<std::uint32_t>(instance.tasks));
    makespan = boost_longest_path(graph, instance.weights, order, start);
  }
  count(state, instance, makespan);
}

void longest_path(benchmark::State& state) {
  const Instance& instance = instance_of(state);
  const slimpack::TaskGraph graph = slimpack::build_task_graph(instance.tasks, instance.edges);
  const auto weights = graph.arrange_tasks(instance.weights);
  std::vector<double> finish;
  double makespan = 0.0;
  for (auto _ : state) makespan = slimpack::longest_path<double>(graph, weights, {}, finish);
  count(state, instance, makespan);
}

void calculate_times(benchmark::State& state) {
  const Instance& instance = instance_of(state);
  const slimpack::TaskGraph graph = slimpack::build_task_graph(instance.tasks, instance.edges);
  const auto weights = graph.arrange_tasks(instance.weights);
  slimpack::TaskTimes<double> times;
  for (auto _ : state) slimpack::calculate_times<double>(graph, weights, {}, times);
  count(state, instance, times.total);
}

void calculate_times_with_lags(benchmark::State& state) {
  const Instance& instance = instance_of(state);
  const slimpack::TaskGraph graph = slimpack::build_task_graph(instance.tasks, instance.edges);
  const auto weights = graph.arrange_tasks(instance.weights);
  const std::vector<double> lags(graph.edges(), 0.0);
  slimpack::TaskTimes<double> times;
  for (auto _ : state) slimpack::calculate_times<double>(graph, weights, lags, times);
  count(state, instance, times.total);
}

void critical_path(benchmark::State& state) {
  const Instance& instance = instance_of(state);
  const slimpack::TaskGraph graph = slimpack::build_task_graph(instance.tasks, instance.edges);
  const auto weights = graph.arrange_tasks(instance.weights);
  const auto times = slimpack::calculate_times<double>(graph, weights);
  for (auto _ : state) benchmark::DoNotOptimize(slimpack::critical_path(graph, times));
  count(state, instance, times.total);
}

void build_and_longest_path(benchmark::State& state) {
  const Instance& instance = instance_of(state);
  double makespan = 0.0;
  for (auto _ : state) {
    const slimpack::TaskGraph graph = slimpack::build_task_graph(instance.tasks, instance.edges);
    const auto weights = graph.arrange_tasks(instance.weights);
    std::vector<double> finish;
    makespan = slimpack::longest_path<double>(graph, weights, {}, finish);
  }
  count(state, instance, makespan);
}

/// The stages' orders as chains. Edges lead each pass from stage to stage, as a schedule knows them.
struct Chains {
  explicit Chains(const Instance& instance) : lengths(instance.stages, 2 * instance.micro_batches) {
    for (const Edge& edge : instance.edges) {
      if (edge.from / lengths.front() != edge.to / lengths.front() || edge.to != edge.from + 1)
        edges.push_back(edge);
    }
  }

  std::vector<std::size_t> lengths;  // [stage]
  std::vector<Edge> edges;           // sorted by `from`
};

void build_chains_and_relax(benchmark::State& state) {
  const Instance& instance = instance_of(state);
  const Chains chains(instance);
  slimpack::ChainGraph graph;
  slimpack::ChainRelaxation<double> relaxation;
  double makespan = 0.0;
  for (auto _ : state) {
    slimpack::build_chain_graph(chains.lengths, chains.edges, graph);
    makespan = relaxation(graph, instance.weights);
  }
  count(state, instance, makespan);
}

void relax_chains(benchmark::State& state) {
  const Instance& instance = instance_of(state);
  const Chains chains(instance);
  const slimpack::ChainGraph graph = slimpack::build_chain_graph(chains.lengths, chains.edges);
  slimpack::ChainRelaxation<double> relaxation;
  double makespan = 0.0;
  for (auto _ : state) makespan = relaxation(graph, instance.weights);
  count(state, instance, makespan);
}

void arguments(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"stages", "topological"})->Unit(benchmark::kMillisecond);
  for (const std::int64_t topological : {0, 1}) {
    for (const std::int64_t stages : {16, 64}) bench->Args({stages, topological});
  }
}

/// A chain's tasks are numbered consecutively, which a topological order breaks up.
void plan_order(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"stages", "topological"})->Unit(benchmark::kMillisecond)->Args({16, 0})->Args({64, 0});
}

BENCHMARK(boost_sort_relax)->Apply(arguments);
BENCHMARK(boost_build_sort_relax)->Apply(arguments);
BENCHMARK(longest_path)->Apply(arguments);
BENCHMARK(calculate_times)->Apply(arguments);
BENCHMARK(calculate_times_with_lags)->Apply(arguments);
BENCHMARK(critical_path)->Apply(arguments);
BENCHMARK(relax_chains)->Apply(plan_order);
BENCHMARK(build_chains_and_relax)->Apply(plan_order);
BENCHMARK(build_and_longest_path)->Apply(arguments);

}  // namespace
