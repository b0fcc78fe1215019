#ifdef SLIMPACK_TEST_BOOST

#include "slimpack/dag/boost.hpp"

#include <algorithm>
#include <boost/concept/assert.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/dag_shortest_paths.hpp>
#include <boost/graph/graph_concepts.hpp>
#include <boost/graph/graphviz.hpp>
#include <boost/graph/topological_sort.hpp>
#include <catch2/catch.hpp>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "slimpack/dag/task_times.hpp"
#include "tests/dag/random_graph.hpp"

using namespace slimpack;

BOOST_CONCEPT_ASSERT((boost::VertexListGraphConcept<Graph>));
BOOST_CONCEPT_ASSERT((boost::IncidenceGraphConcept<Graph>));
BOOST_CONCEPT_ASSERT((boost::EdgeListGraphConcept<Graph>));

TEST_CASE("Boost lists the tasks and edges of a graph") {
  const std::vector<Edge> given = {{0, 2}, {0, 3}, {3, 2}};
  const Graph graph = build_graph(5, given);
  CHECK(num_vertices(graph) == 5);
  CHECK(num_edges(graph) == 3);
  std::vector<Edge> listed, by_task;
  const auto [first, last] = edges(graph);
  for (auto it = first; it != last; ++it) listed.push_back({source(*it, graph), target(*it, graph)});
  const auto [begin, end] = vertices(graph);
  CHECK(std::distance(begin, end) == 5);
  for (auto v = begin; v != end; ++v) {
    const auto [from, to] = out_edges(*v, graph);
    CHECK(static_cast<std::size_t>(std::distance(from, to)) == out_degree(*v, graph));
    for (auto it = from; it != to; ++it) by_task.push_back({source(*it, graph), target(*it, graph)});
  }
  CHECK(listed == given);
  CHECK(by_task == given);
}

TEST_CASE("Boost's topological sort and longest path on our graph agree with ours") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    const testing::RandomGraph random(seed);
    if (random.tasks == 0) continue;
    const Graph graph = build_graph(random.tasks, random.edges);
    std::vector<TaskId> order;
    boost::topological_sort(graph, std::back_inserter(order));
    REQUIRE(order.size() == random.tasks);
    std::reverse(order.begin(), order.end());
    std::vector<std::size_t> place(random.tasks);
    for (std::size_t p = 0; p < order.size(); ++p) place[order[p]] = p;
    for (const Edge& edge : random.edges) CHECK(place[edge.from] < place[edge.to]);

    // The longest path from task 0, as the shortest one over negative weights: an edge weighs its source.
    std::vector<double> lengths(graph.edges()), distance(random.tasks);
    const auto [first, last] = edges(graph);
    for (auto it = first; it != last; ++it) {
      lengths[(*it).slot] = -static_cast<double>(random.weights[source(*it, graph)]);
    }
    std::vector<TaskId> before(random.tasks);
    const auto index = get(boost::vertex_index, graph);
    boost::dag_shortest_paths(
        graph, TaskId{0},
        boost::distance_map(boost::make_iterator_property_map(distance.begin(), index))
            .predecessor_map(boost::make_iterator_property_map(before.begin(), index))
            .weight_map(boost::make_iterator_property_map(lengths.begin(), get(boost::edge_index, graph))));
    const auto expected = [&] {  // longest path from task 0 alone, by relaxing in our order
      std::vector<double> longest(random.tasks, -1.0);
      longest[0] = 0.0;
      for (const TaskId t : topological_order(graph)) {
        for (const TaskId to : graph.successors(t)) {
          if (longest[t] >= 0.0)
            longest[to] = std::max(longest[to], longest[t] + static_cast<double>(random.weights[t]));
        }
      }
      return longest;
    }();
    for (TaskId t = 0; t < random.tasks; ++t) {
      if (expected[t] >= 0.0) CHECK(-distance[t] == expected[t]);
    }
  }
}

TEST_CASE("Boost's breadth-first search runs on our graph") {
  const Graph graph = build_graph(4, std::vector<Edge>{{2, 0}, {0, 1}, {2, 1}});
  std::vector<int> depth(4, 0);
  const auto record = boost::record_distances(
      boost::make_iterator_property_map(depth.begin(), get(boost::vertex_index, graph)),
      boost::on_tree_edge());
  boost::breadth_first_search(graph, TaskId{2}, boost::visitor(boost::make_bfs_visitor(record)));
  CHECK(depth == std::vector<int>{1, 1, 0, 0});
}

TEST_CASE("Boost draws our graph with Graphviz") {
  const Graph graph = build_graph(3, std::vector<Edge>{{2, 0}, {0, 1}});
  std::ostringstream text;
  boost::write_graphviz(text, graph);
  std::string drawn = text.str();
  drawn.erase(std::remove_if(drawn.begin(), drawn.end(), [](char c) { return c == '\n' || c == ' '; }),
              drawn.end());
  CHECK(drawn == "digraphG{0;1;2;0->1;2->0;}");
}

#endif
