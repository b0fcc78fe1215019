// The contract that every back end keeps, a user's own solver included.
#include "tests/milp/solvers.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

#include "slimpack/milp/back_end.hpp"
#include "tests/milp/exhaustive.hpp"

using namespace slimpack;

namespace {

using test::check_result;
using test::Solvers;

/// Two rows of large numbers over 30 binaries that no subset meets exactly but by chance: minimise how far
/// the sums are off. Feasible at once, hard to prove.
MilpModel market_split(unsigned seed) {
  std::mt19937 random(seed);
  MilpModel model;
  std::vector<Term> objective;
  for (int j = 0; j < 30; ++j) model.add_binary();
  for (int i = 0; i < 3; ++i) {
    std::vector<Term> terms;
    double sum = 0.0;
    for (VariableId j = 0; j < 30; ++j) {
      terms.push_back({j, static_cast<double>(1 + random() % 99)});
      sum += terms.back().coefficient;
    }
    for (const double sign : {1.0, -1.0}) {
      terms.push_back({model.add_variable("", 0.0, 4000.0, VariableKind::integer), sign});
      objective.push_back({terms.back().variable, 1.0});
    }
    model.add_row("", std::floor(sum / 2.0), std::floor(sum / 2.0), terms);
  }
  model.set_objective(Direction::minimise, objective, 1.0);
  std::vector<double> initial(36, 0.0);
  for (std::size_t i = 0; i < 3; ++i) initial[30 + 2 * i] = model.row_lower()[i];
  model.set_initial_solution(initial);
  return model;
}

/// A knapsack problem whose best answer has about 3 of 4 items.
MilpModel knapsack() {
  MilpModel model;
  std::vector<Term> weights, values;
  for (const auto& [weight, value] : {std::pair{5.0, 8.0}, {7.0, 11.0}, {4.0, 6.0}, {3.0, 4.0}}) {
    const VariableId x = model.add_binary();
    weights.push_back({x, weight});
    values.push_back({x, value});
  }
  model.add_row("weight", -no_bound, 14.0, weights);
  model.set_objective(Direction::maximise, values);
  return model;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("solvers find what trying all points finds", "", Solvers) {
  int infeasible = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    const MilpModel model = test::random_model(seed);
    INFO("seed " << seed << "\n" << test::print(model));
    const MilpResult result = TestType::solve(model);
    check_result(model, result);
    const auto best = test::best_objective(model);
    if (!best) {
      ++infeasible;
      CHECK(result.status == SolveStatus::infeasible);
      CHECK_FALSE(result.has_solution());
      continue;
    }
    REQUIRE(result.status == SolveStatus::optimal);
    CHECK(result.objective == Approx(*best));
    CHECK(result.bound == result.objective);
    for (std::size_t j = 0; j < model.variables(); ++j)
      CHECK(result.values[j] == std::round(result.values[j]));
  }
  CHECK(infeasible > 20);
  CHECK(infeasible < 200);
}

TEMPLATE_LIST_TEST_CASE("an optimum is found that preprocessing by CBC 2.10 loses", "", Solvers) {
  MilpModel model;
  const VariableId x = model.add_variable("x", -2.0, 0.0, VariableKind::integer);
  const VariableId y = model.add_variable("y", -1.0, 0.0, VariableKind::integer);
  model.add_row("row", -6.0, -4.0, std::vector<Term>{{x, 3.0}, {y, 2.5}});
  model.set_objective(Direction::minimise, std::vector<Term>{{x, 1.0}, {y, 2.5}});
  const MilpResult result = TestType::solve(model);
  REQUIRE(result.status == SolveStatus::optimal);
  CHECK(result.objective == Approx(-3.5));
  CHECK(result.values == std::vector<double>{-1.0, -1.0});
}

TEMPLATE_LIST_TEST_CASE("solvers reach the optimum from any solution", "", Solvers) {
  for (unsigned seed = 1; seed <= 150; ++seed) {
    MilpModel model = test::random_model(seed);
    INFO("seed " << seed << "\n" << test::print(model));
    const auto best = test::best_objective(model);
    if (!best) continue;
    std::vector<std::vector<double>> points;
    test::for_each_point(model, [&](const std::vector<double>& point) {
      if (!find_violation(model, point)) points.push_back(point);
      return true;
    });
    model.set_initial_solution(points[seed % points.size()]);
    const MilpResult result = TestType::solve(model);
    check_result(model, result);
    CHECK(result.status == SolveStatus::optimal);
    CHECK(result.objective == Approx(*best));
  }
}

TEMPLATE_LIST_TEST_CASE("an initial solution that breaks a row is refused", "", Solvers) {
  MilpModel model = knapsack();
  model.set_initial_solution({1.0, 1.0, 1.0, 0.0});
  CHECK_THROWS_WITH(TestType::solve(model), Catch::Contains("initial solution") &&
                                                Catch::Contains("row 0 (weight) is 16; expected -inf to 14"));
  model.set_initial_solution({0.5, 0.0, 0.0, 0.0});
  CHECK_THROWS_WITH(TestType::solve(model), Catch::Contains("variable 0 is 0.5; expected an integer"));
}

TEMPLATE_LIST_TEST_CASE("incumbents get better and better, and the last one is the result", "", Solvers) {
  std::size_t reported = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    const MilpModel model = test::random_model(seed);
    INFO("seed " << seed << "\n" << test::print(model));
    std::vector<double> last;
    double objective = std::numeric_limits<double>::quiet_NaN();
    const MilpResult result = TestType::solve(
        model, {.on_incumbent = [&](const MilpIncumbent& incumbent) {
          CHECK_FALSE(find_violation(model, incumbent.values));
          CHECK(incumbent.objective == objective_value(model, incumbent.values));
          if (!last.empty())
            CHECK((model.minimises() ? incumbent.objective < objective : incumbent.objective > objective));
          objective = incumbent.objective;
          last.assign(incumbent.values.begin(), incumbent.values.end());
          ++reported;
          return true;
        }});
    CHECK(result.values == last);
  }
  CHECK(reported > 50);
}

TEMPLATE_LIST_TEST_CASE("a solve that is interrupted keeps its incumbent", "", Solvers) {
  int interrupted = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    const MilpModel model = test::random_model(seed);
    INFO("seed " << seed << "\n" << test::print(model));
    std::vector<double> seen;
    const MilpResult result = TestType::solve(model, {.on_incumbent = [&](const MilpIncumbent& incumbent) {
                                                CHECK(seen.empty());
                                                seen.assign(incumbent.values.begin(), incumbent.values.end());
                                                return false;
                                              }});
    check_result(model, result);
    if (seen.empty()) {
      CHECK(result.status == SolveStatus::infeasible);
      continue;
    }
    CHECK(result.values == seen);
    if (result.status == SolveStatus::optimal) continue;
    ++interrupted;
    CHECK(result.limit == MilpLimit::callback);
    CHECK((model.minimises() ? result.bound <= *test::best_objective(model) + 1e-9
                             : result.bound >= *test::best_objective(model) - 1e-9));
  }
  INFO(interrupted << " of 100 interrupted before they were proven");
}

TEMPLATE_LIST_TEST_CASE("what a callback throws comes out, and the solver still works", "", Solvers) {
  const auto fail = [](const MilpIncumbent&) -> bool { throw std::runtime_error("enough"); };
  CHECK_THROWS_WITH(TestType::solve(knapsack(), {.on_incumbent = fail}), "enough");
  CHECK(TestType::solve(knapsack()).objective == 21.0);
}

TEMPLATE_LIST_TEST_CASE("without time, the initial solution is the answer", "", Solvers) {
  MilpModel model = knapsack();
  const MilpResult nothing = TestType::solve(model, {.time_limit_seconds = 0.0});
  check_result(model, nothing);
  CHECK(nothing.status == SolveStatus::unknown);
  CHECK(nothing.limit == MilpLimit::time);
  CHECK(nothing.values.empty());
  model.set_initial_solution({0.0, 1.0, 0.0, 1.0});
  const MilpResult result = TestType::solve(model, {.time_limit_seconds = 0.0});
  check_result(model, result);
  CHECK(result.status == SolveStatus::feasible);
  CHECK(result.limit == MilpLimit::time);
  CHECK(result.objective == 15.0);
}

TEMPLATE_LIST_TEST_CASE("when time runs out, the best solution so far is the answer", "", Solvers) {
  if constexpr (!TestType::integers_alone) {
    const MilpModel model = market_split(1);
    const double initial = objective_value(model, model.initial_solution());
    const MilpResult result = TestType::solve(model, {.time_limit_seconds = 0.3});
    check_result(model, result);
    CHECK(result.objective <= initial);
    CHECK(result.bound <= result.objective);
    if (result.status == SolveStatus::feasible) CHECK(result.limit == MilpLimit::time);
  }
}

TEMPLATE_LIST_TEST_CASE("a gap that is good enough ends the search, with a true bound", "", Solvers) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    const MilpModel model = test::random_model(seed);
    INFO("seed " << seed << "\n" << test::print(model));
    const auto best = test::best_objective(model);
    const MilpResult result = TestType::solve(model, {.relative_gap = 0.3});
    check_result(model, result);
    if (!best) {
      CHECK(result.status == SolveStatus::infeasible);
      continue;
    }
    CHECK(result.has_solution());
    CHECK(result.gap <= 0.3 + 1e-9);
    CHECK((model.minimises() ? result.bound <= *best + 1e-6 : result.bound >= *best - 1e-6));
  }
}

TEMPLATE_LIST_TEST_CASE("linear programs", "", Solvers) {
  if constexpr (!TestType::integers_alone) {
    MilpModel model;
    const VariableId x = model.add_variable("x", 0.0, no_bound), y = model.add_variable("y", 0.0, 2.0);
    model.add_row("", -no_bound, 4.0, {{x, 1.0}, {y, 3.0}});
    model.set_objective(Direction::maximise, {{x, 1.0}, {y, 2.0}}, 10.0);
    const MilpResult result = TestType::solve(model);
    check_result(model, result);
    CHECK(result.status == SolveStatus::optimal);
    CHECK(result.objective == Approx(14.0));
    model.add_row("", 5.0, no_bound, {{x, 1.0}, {y, 3.0}});
    CHECK(TestType::solve(model).status == SolveStatus::infeasible);
  }
}

TEMPLATE_LIST_TEST_CASE("models without a best solution", "", Solvers) {
  if constexpr (!TestType::integers_alone) {
    for (const VariableKind kind : {VariableKind::continuous, VariableKind::integer}) {
      MilpModel model;
      const VariableId x = model.add_variable("x", 0.0, no_bound, kind);
      const VariableId y = model.add_variable("y", -no_bound, no_bound, kind);
      model.add_row("", -1.0, 1.0, {{x, 1.0}, {y, -1.0}});
      model.set_objective(Direction::maximise, {{x, 1.0}, {y, 1.0}});
      const MilpResult result = TestType::solve(model);
      check_result(model, result);
      CHECK(result.status == SolveStatus::unbounded);
      CHECK(result.bound == no_bound);
      model.set_initial_solution({3.0, 4.0});
      CHECK(TestType::solve(model).status == SolveStatus::unbounded);
    }
    // Its relaxation is unbounded, but 2x - 2y is never 1.
    MilpModel model;
    const VariableId x = model.add_variable("x", 0.0, 1e6, VariableKind::integer);
    const VariableId y = model.add_variable("y", 0.0, 1e6, VariableKind::integer);
    const VariableId z = model.add_variable("z", 0.0, no_bound);
    model.add_row("", 1.0, 1.0, {{x, 2.0}, {y, -2.0}});
    model.set_objective(Direction::maximise, {{z, 1.0}});
    const MilpResult result = TestType::solve(model, {.time_limit_seconds = 1.0});
    CHECK(result.status != SolveStatus::unbounded);
    CHECK_FALSE(result.has_solution());
  }
}

TEMPLATE_LIST_TEST_CASE("models with next to nothing in them", "", Solvers) {
  MilpModel model;
  model.set_objective(Direction::maximise, {}, 4.0);
  MilpResult result = TestType::solve(model);
  CHECK(result.status == SolveStatus::optimal);
  CHECK(result.objective == 4.0);
  CHECK(result.has_solution());
  const VariableId x = model.add_variable("x", 1.0, 3.0, VariableKind::integer);
  result = TestType::solve(model);
  CHECK(result.status == SolveStatus::optimal);
  model.set_objective(Direction::maximise, {{x, 2.0}});
  result = TestType::solve(model);
  CHECK(result.status == SolveStatus::optimal);
  CHECK(result.objective == 6.0);
  model.add_row("nothing", 1.0, 2.0, {});
  CHECK(TestType::solve(model).status == SolveStatus::infeasible);
}

TEMPLATE_LIST_TEST_CASE("the same model gives the same result", "", Solvers) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    const MilpModel model = test::random_model(seed);
    INFO("seed " << seed << "\n" << test::print(model));
    const MilpResult first = TestType::solve(model, {.seed = 7}),
                     second = TestType::solve(model, {.seed = 7});
    CHECK(first.values == second.values);
    CHECK(first.status == second.status);
    CHECK(first.nodes == second.nodes);
  }
}

TEMPLATE_LIST_TEST_CASE("solves in several threads don't disturb each other", "", Solvers) {
  std::vector<std::vector<double>> alone(40), together(40);
  for (unsigned i = 0; i < 40; ++i) alone[i] = TestType::solve(test::random_model(i)).values;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = t; i < 40; i += 4) together[i] = TestType::solve(test::random_model(i)).values;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(alone == together);
}

TEMPLATE_LIST_TEST_CASE("options that make no sense are refused all at once", "", Solvers) {
  MilpOptions options{.time_limit_seconds = -1.0, .relative_gap = -0.5, .threads = 0};
  CHECK_THROWS_WITH(TestType::solve(knapsack(), options), Catch::Contains("time_limit_seconds is -1") &&
                                                              Catch::Contains("relative_gap is -0.5") &&
                                                              Catch::Contains("threads is 0"));
  options = {.time_limit_seconds = std::numeric_limits<double>::quiet_NaN()};
  CHECK_THROWS_WITH(TestType::solve(knapsack(), options), Catch::Contains("time_limit_seconds is nan"));
}
