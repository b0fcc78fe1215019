// The own solver of covering programs: against every point, against GLPK, and at the edges.
#include "slimpack/milp/covering.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "slimpack/milp/back_end.hpp"
#include "tests/milp/checkpointing_instances.hpp"
#include "tests/milp/exhaustive.hpp"
#include "tests/milp/solvers.hpp"

using namespace slimpack;
using test::check_result;

namespace {

static_assert(MilpSolver<CoveringSolver>);

/// A small covering program by seed: up to 6 variables and 5 rows, whole costs for even seeds; some have free
/// variables, fixed ones, rows that hold anyway, or no solution.
MilpModel random_covering(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  MilpModel model;
  std::vector<Term> costs;
  const int variables = pick(1, 6);
  double total = 0.0;
  for (VariableId j = 0; j < static_cast<VariableId>(variables); ++j) {
    const int lower = pick(0, 3) == 0 ? pick(-2, 2) : 0, upper = lower + pick(0, 4);
    model.add_variable("", lower, upper, VariableKind::integer);
    total += upper;
    const double cost = pick(0, 5) == 0 ? 0.0 : pick(0, 2) > 0 ? 1.0 : pick(1, 9);
    costs.push_back({j, seed % 2 == 0 ? cost : cost * 0.37});
  }
  for (int i = pick(0, 5); i > 0; --i) {
    std::vector<Term> terms;
    for (VariableId j = 0; j < static_cast<VariableId>(variables); ++j) {
      const double size = seed % 3 == 0 ? 1.0 : std::uniform_real_distribution<double>(0.1, 3.0)(random);
      if (pick(0, 3) > 0) terms.push_back({j, size * pick(1, 4)});
    }
    model.add_row("", pick(-10, 10) / 10.0 * std::abs(total) * 2.0, no_bound, terms);
  }
  model.set_objective(Direction::minimise, costs, pick(-2, 2));
  return model;
}

/// A minimum of one row over two variables, to be varied.
MilpModel one_row(double a, double b, double rhs, double upper = 10.0) {
  MilpModel model;
  const VariableId x = model.add_variable("x", 0.0, upper, VariableKind::integer);
  const VariableId y = model.add_variable("y", 0.0, upper, VariableKind::integer);
  model.add_row("row", rhs, no_bound, {{x, a}, {y, b}});
  model.set_objective(Direction::minimise, {{x, 1.0}, {y, 1.0}});
  return model;
}

}  // namespace

TEST_CASE("covering programs are solved as by trying all points") {
  int infeasible = 0, trivial = 0;
  for (unsigned seed = 1; seed <= 3000; ++seed) {
    const MilpModel model = random_covering(seed);
    INFO("seed " << seed << "\n" << test::print(model));
    const MilpResult result = solve_covering(model);
    check_result(model, result);
    const auto best = test::best_objective(model);
    if (!best) {
      ++infeasible;
      CHECK(result.status == SolveStatus::infeasible);
      continue;
    }
    REQUIRE(result.status == SolveStatus::optimal);
    CHECK(result.objective == Approx(*best).margin(1e-9));
    CHECK(result.bound == result.objective);
    if (result.nodes <= 1) ++trivial;
  }
  CHECK(infeasible > 150);
  CHECK(infeasible < 1500);
  CHECK(trivial < 2990);
}

TEST_CASE("whatever the effort, there is a solution and a true bound") {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    const MilpModel model = random_covering(seed);
    const auto best = test::best_objective(model);
    if (!best) continue;
    INFO("seed " << seed << "\n" << test::print(model));
    const CoveringOptions options{.solver = {.relative_gap = seed % 4 == 0 ? 0.2 : 0.0},
                                  .node_limit = seed % 3,
                                  .pivot_limit = seed % 5 == 0 ? 1 : 1000,
                                  .cut_rounds = static_cast<int>(seed % 2)};
    const MilpResult result = solve_covering(model, options);
    check_result(model, result);
    REQUIRE(result.has_solution());
    CHECK(result.objective >= *best - 1e-9);
    CHECK(result.bound <= *best + 1e-9);
  }
}

TEST_CASE("checkpointing programs: nothing beats the bound, and more effort never hurts") {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    const test::CheckpointingShape shape{.chunks = 24 + seed % 3 * 8,
                                         .stages = 2 + seed % 4 * 2,
                                         .prefill = 1 + seed % 4,
                                         .share = 0.1 + 0.07 * seed};
    const MilpModel model = test::checkpointing_program(seed, shape);
    INFO("seed " << seed);
    const MilpResult quick = solve_covering(model, quick_covering());
    const MilpResult more = solve_covering(model, {.node_limit = 100});
    check_result(model, quick);
    check_result(model, more);
    CHECK(quick.bound <= more.objective);
    CHECK(more.bound <= quick.objective);
    CHECK(more.bound == std::ceil(more.bound));
    CHECK(quick.gap < 0.2);
  }
}

#ifdef SLIMPACK_TEST_GLPK
TEST_CASE("checkpointing programs are solved as by GLPK") {
  int proven = 0;
  for (unsigned seed = 1; seed <= 25; ++seed) {
    const test::CheckpointingShape shape{
        .chunks = 14 + seed % 9, .stages = 4, .prefill = 1 + seed % 3, .share = 0.1 + 0.03 * seed};
    const MilpModel model = test::checkpointing_program(seed, shape);
    INFO("seed " << seed);
    const MilpResult result = solve_covering(model);
    const MilpResult glpk = test::Glpk::solve(model, {.time_limit_seconds = 0.5});
    check_result(model, result);
    REQUIRE(glpk.has_solution());
    CHECK(result.bound <= glpk.objective + 1e-6);
    if (glpk.status != SolveStatus::optimal) continue;
    ++proven;
    CHECK(result.status == SolveStatus::optimal);
    CHECK(result.objective == Approx(glpk.objective));
  }
  CHECK(proven > 0);
}
#endif

TEST_CASE("covering programs at the edges") {
  MilpModel model;
  MilpResult result = solve_covering(model);
  CHECK(result.status == SolveStatus::optimal);
  CHECK(result.objective == 0.0);
  model.add_row("nothing needed", 0.0, no_bound, {});
  CHECK(solve_covering(model).status == SolveStatus::optimal);
  model.add_row("nothing to need", 1.0, no_bound, {});
  CHECK(solve_covering(model).status == SolveStatus::infeasible);

  SECTION("a row that the upper bounds miss") {
    CHECK(solve_covering(one_row(1.0, 2.0, 30.0)).values == std::vector<double>{10.0, 10.0});
    CHECK(solve_covering(one_row(1.0, 2.0, 30.5)).status == SolveStatus::infeasible);
    CHECK(solve_covering(one_row(0.1, 0.2, 3.0)).status == SolveStatus::optimal);  // 0.1 * 10 + 0.2 * 10 < 3
  }
  SECTION("equal bounds") {
    const MilpModel fixed = one_row(1.0, 1.0, 0.0, 0.0);
    CHECK(solve_covering(fixed).values == std::vector<double>{0.0, 0.0});
  }
  SECTION("no costs") {
    MilpModel free = one_row(2.0, 3.0, 7.0);
    free.set_objective(Direction::minimise, {}, 4.0);
    result = solve_covering(free);
    check_result(free, result);
    CHECK(result.status == SolveStatus::optimal);
    CHECK(result.objective == 4.0);
  }
  SECTION("sizes far apart") {
    for (const double scale : {1e-6, 1.0, 1e6, 1e11}) {
      for (const double ratio : {1.0, 1e3, 1e-3}) {
        INFO("scale " << scale << ", ratio " << ratio);
        const MilpModel far = one_row(7.0 * scale, 3.0 * scale * ratio, 40.0 * scale);
        result = solve_covering(far);
        check_result(far, result);
        REQUIRE(result.status == SolveStatus::optimal);
        CHECK(result.objective == *test::best_objective(far));
      }
    }
  }
  SECTION("one unit of millions") {
    const MilpModel many = one_row(1e-6, 1e-9, 1.0, 1e9);
    result = solve_covering(many);
    check_result(many, result);
    CHECK(result.status == SolveStatus::optimal);
    CHECK(result.objective == Approx(1e6).epsilon(1e-6));
  }
  SECTION("costs far apart") {
    MilpModel dear = one_row(2.0, 3.0, 7.0);
    dear.set_objective(Direction::minimise, {{0, 1e9}, {1, 1e-3}});
    result = solve_covering(dear);
    check_result(dear, result);
    CHECK(result.status == SolveStatus::optimal);
    CHECK(result.values == std::vector<double>{0.0, 3.0});
  }
}

TEST_CASE("what is no covering program is refused, and the message says where") {
  const auto refused = [](const MilpModel& model, const char* text) {
    CHECK_THROWS_AS(solve_covering(model), InvalidInput);
    CHECK_THROWS_WITH(solve_covering(model), Catch::Contains(text));
  };
  MilpModel model = one_row(1.0, 2.0, 5.0);
  model.set_objective(Direction::maximise, {{0, 1.0}});
  refused(model, "to be maximised");
  model = one_row(1.0, 2.0, 5.0);
  model.set_objective(Direction::minimise, {{1, -1.0}});
  refused(model, "variable 1 (y) has the cost -1; expected 0 or more");
  model = one_row(1.0, 2.0, 5.0);
  model.add_variable("z", 0.0, 1.0);
  refused(model, "variable 2 (z) is continuous");
  model = one_row(1.0, 2.0, 5.0);
  model.add_variable("z", 0.0, no_bound, VariableKind::integer);
  refused(model, "variable 2 (z) has the bounds 0 and inf; expected finite ones");
  model = one_row(1.0, -2.0, 5.0);
  refused(model, "row 0 (row) has the coefficient -2 of variable 1 (y); expected 0 or more");
  model = one_row(1.0, 2.0, 5.0);
  model.add_row("cap", 0.0, 4.0, {{0, 1.0}});
  refused(model, "row 1 (cap) has the upper bound 4; expected a lower bound alone");
  refused(one_row(1e-8, 1e-9, 1e12, 1e19), "expected at most 2^53");
  CHECK_THROWS_WITH(solve_covering(one_row(1.0, 1.0, 1.0), {.node_limit = -1, .cut_rounds = -2}),
                    Catch::Contains("node_limit is -1") && Catch::Contains("cut_rounds is -2"));
}

TEST_CASE("equal covering programs give equal results") {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    const MilpModel model =
        test::checkpointing_program(seed, {.chunks = 40, .stages = 8, .prefill = 2, .share = 0.5});
    const MilpResult first = solve_covering(model, {.node_limit = 40});
    const MilpResult second = solve_covering(model, {.node_limit = 40});
    CHECK(first.values == second.values);
    CHECK(first.bound == second.bound);
    CHECK(first.nodes == second.nodes);
  }
}

TEST_CASE("a covering search keeps the contract of back ends") {
  const MilpModel model =
      test::checkpointing_program(3, {.chunks = 48, .stages = 8, .prefill = 3, .share = 0.5});
  const CoveringSolver solve{{.node_limit = 30}};
  const MilpResult usual = solve(model);
  REQUIRE(usual.status == SolveStatus::feasible);
  CHECK(usual.limit == MilpLimit::work);

  SECTION("the initial solution is where it starts") {
    MilpModel started = model;
    started.set_initial_solution({model.upper().begin(), model.upper().end()});
    CHECK(solve(started).objective <= usual.objective + 1.0);
    started.set_initial_solution(usual.values);
    CHECK(solve(started).objective <= usual.objective);
    const MilpResult at_once = solve(started, {.time_limit_seconds = 0.0});
    CHECK(at_once.values == usual.values);
    CHECK(at_once.limit == MilpLimit::time);
    started.set_initial_solution(std::vector<double>(model.variables(), 0.0));
    CHECK_THROWS_WITH(solve(started), Catch::Contains("initial solution"));
  }
  SECTION("incumbents get better, and the last one is the result") {
    std::vector<double> last;
    double objective = std::numeric_limits<double>::infinity();
    const MilpResult result = solve(model, {.on_incumbent = [&](const MilpIncumbent& incumbent) {
                                      CHECK(incumbent.objective < objective);
                                      CHECK(incumbent.bound <= usual.objective);
                                      objective = incumbent.objective;
                                      last.assign(incumbent.values.begin(), incumbent.values.end());
                                      return true;
                                    }});
    CHECK(result.values == last);
    CHECK(result.values == usual.values);
  }
  SECTION("a callback ends it") {
    const MilpResult result = solve(model, {.on_incumbent = [](const MilpIncumbent&) { return false; }});
    check_result(model, result);
    CHECK(result.limit == MilpLimit::callback);
    CHECK(result.bound <= usual.objective);
  }
  SECTION("what a callback throws comes out") {
    const auto fail = [](const MilpIncumbent&) -> bool { throw std::runtime_error("enough"); };
    CHECK_THROWS_WITH(solve(model, {.on_incumbent = fail}), "enough");
  }
  SECTION("a callback in small programs") {
    for (unsigned seed = 1; seed <= 300; ++seed) {
      const MilpModel small = random_covering(seed);
      INFO("seed " << seed << "\n" << test::print(small));
      const MilpResult result =
          solve_covering(small, {.solver = {.on_incumbent = [](const MilpIncumbent&) { return false; }}});
      check_result(small, result);
      const auto best = test::best_objective(small);
      CHECK(result.has_solution() == best.has_value());
      if (best) CHECK(result.bound <= *best + 1e-9);
    }
  }
}

// Run by name or with [comparison]: minutes.
TEMPLATE_LIST_TEST_CASE("500 checkpointing programs, beside a solver with a second for each",
                        "[.][comparison]", test::Solvers) {
  if constexpr (!TestType::integers_alone) {
    int better = 0, equal = 0, worse = 0, proven = 0, theirs_proven = 0;
    for (unsigned seed = 1; seed <= 500; ++seed) {
      const MilpModel model = test::random_checkpointing_program(seed);
      INFO("seed " << seed);
      const MilpResult own = solve_covering(model);
      const MilpResult theirs = TestType::solve(model, {.time_limit_seconds = 1.0});
      check_result(model, own);
      CHECK(own.bound <= theirs.objective + 1e-6);
      CHECK(theirs.bound <= own.objective + 1e-6);
      if (own.objective > theirs.objective + 1e-6) {
        const MilpResult longer = solve_covering(model, {.node_limit = 100'000, .pivot_limit = 10'000'000});
        CHECK(longer.objective <= theirs.objective + 1e-6);
      }
      proven += own.status == SolveStatus::optimal ? 1 : 0;
      theirs_proven += theirs.status == SolveStatus::optimal ? 1 : 0;
      const double difference = own.objective - theirs.objective;
      ++(std::abs(difference) < 1e-6 ? equal : difference < 0.0 ? better : worse);
    }
    WARN("better " << better << ", equal " << equal << ", worse " << worse << "; proven " << proven
                   << ", by the solver " << theirs_proven);
  }
}
