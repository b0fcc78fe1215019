// A result is right whatever a solver claims.
#include "slimpack/milp/back_end.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace slimpack;

namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// Minimise x + y for integers x + y >= 3, each up to 5.
MilpModel sum_model() {
  MilpModel model;
  const VariableId x = model.add_variable("x", 0.0, 5.0, VariableKind::integer);
  const VariableId y = model.add_variable("y", 0.0, 5.0, VariableKind::integer);
  model.add_row("enough", 3.0, no_bound, {{x, 1.0}, {y, 1.0}});
  model.set_objective(Direction::minimise, {{x, 1.0}, {y, 1.0}});
  return model;
}

}  // namespace

TEST_CASE("solutions that break the model, or are no better, are ignored") {
  const MilpModel model = sum_model();
  int calls = 0;
  const MilpOptions options{.on_incumbent = [&](const MilpIncumbent&) { return ++calls > 0; }};
  MilpSearch search(model, options);
  CHECK(search.offer(std::vector<double>{1.0, 1.0}, unknown));
  CHECK(search.offer(std::vector<double>{0.4, 2.4}, unknown));
  CHECK(search.offer(std::vector<double>{-1.0, 2.0}, unknown));
  CHECK(search.offer(std::vector<double>{unknown, 5.0}, unknown));
  CHECK_FALSE(search.has_best());
  CHECK(calls == 0);
  CHECK(search.offer(std::vector<double>{2.0 + 1e-8, 2.0 - 1e-8}, unknown));
  CHECK(std::vector<double>(search.best().begin(), search.best().end()) == std::vector<double>{2.0, 2.0});
  CHECK(search.offer(std::vector<double>{4.0, 0.0}, unknown));
  CHECK(search.offer(std::vector<double>{5.0, 0.0}, unknown));
  CHECK(calls == 1);
  CHECK(search.offer(std::vector<double>{0.0, 3.0}, unknown));
  CHECK(calls == 2);
  const MilpResult result = search.finish(MilpClaim::stopped, 2.5, 7);
  CHECK(result.status == SolveStatus::feasible);
  CHECK(result.limit == MilpLimit::time);
  CHECK(result.objective == 3.0);
  CHECK(result.bound == 2.5);
  CHECK(result.gap == Approx(0.5 / 3.0));
  CHECK(result.nodes == 7);
}

TEST_CASE("a solution stands against every claim of a solver") {
  MilpModel model = sum_model();
  model.set_initial_solution({2.0, 2.0});
  const MilpOptions options;
  for (const MilpClaim claim : {MilpClaim::infeasible, MilpClaim::failed, MilpClaim::stopped}) {
    const MilpResult result = MilpSearch(model, options).finish(claim, unknown, 0, "gave up");
    CHECK(result.status == SolveStatus::feasible);
    CHECK(result.objective == 4.0);
    CHECK(result.bound == -no_bound);
    CHECK(result.limit == (claim == MilpClaim::stopped ? MilpLimit::time : MilpLimit::failure));
    CHECK(result.message == (claim == MilpClaim::stopped ? "" : "gave up"));
  }
  // A bound beyond the solution can't be true.
  const MilpResult beyond = MilpSearch(model, options).finish(MilpClaim::stopped, 4.5, 0);
  CHECK(beyond.bound == 4.0);
  CHECK(beyond.gap == 0.0);
}

TEST_CASE("claims without a solution") {
  const MilpModel model = sum_model();
  const MilpOptions options;
  const auto finish = [&](MilpClaim claim) {
    return MilpSearch(model, options).finish(claim, unknown, 0, "words");
  };
  CHECK(finish(MilpClaim::infeasible).status == SolveStatus::infeasible);
  CHECK(finish(MilpClaim::unbounded).status == SolveStatus::unbounded);
  CHECK(finish(MilpClaim::stopped).status == SolveStatus::unknown);
  const MilpResult odd = finish(MilpClaim::optimal);
  CHECK(odd.status == SolveStatus::unknown);
  CHECK(odd.limit == MilpLimit::failure);
  CHECK(odd.message == "words");
  CHECK_FALSE(odd.has_solution());
  CHECK(std::isnan(odd.objective));
}

TEST_CASE("optimal within the gap asked for is feasible, with the bound stated") {
  MilpModel model = sum_model();
  model.set_initial_solution({2.0, 2.0});
  const MilpOptions options{.relative_gap = 0.5};
  const MilpResult result = MilpSearch(model, options).finish(MilpClaim::optimal, 3.0, 0);
  CHECK(result.status == SolveStatus::feasible);
  CHECK(result.limit == MilpLimit::gap);
  CHECK(result.bound == 3.0);
  CHECK(MilpSearch(model, options).finish(MilpClaim::optimal, 4.0, 0).status == SolveStatus::optimal);
}

TEST_CASE("gaps") {
  CHECK(relative_gap(4.0, 3.0) == 0.25);
  CHECK(relative_gap(-4.0, -5.0) == 0.25);
  CHECK(relative_gap(0.0, 0.0) == 0.0);
  CHECK(relative_gap(0.0, -1.0) == no_bound);
  CHECK(relative_gap(unknown, 1.0) == no_bound);
  CHECK(relative_gap(1.0, -no_bound) == no_bound);
}
