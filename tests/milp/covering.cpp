// The own solver of covering programs: against every point, against GLPK, and at the edges.
#include "slimpack/milp/covering.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "slimpack/milp/back_end.hpp"
#include "slimpack/milp/covering_blocks.hpp"
#include "slimpack/milp/covering_cuts.hpp"
#include "slimpack/milp/covering_relaxation.hpp"
#include "slimpack/milp/covering_search.hpp"
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

/// Calls `visit` with all whole points from 0 to `upper`.
template <class Visit>
void for_each_point(std::span<const double> upper, Visit&& visit) {
  std::vector<double> point(upper.size(), 0.0);
  for (std::size_t j = 0; j < point.size() || point.empty();) {
    if (j == 0) visit(std::span<const double>(point));
    if (point.empty()) return;
    if (point[j] < upper[j]) {
      point[j] += 1.0;
      j = 0;
    } else {
      point[j++] = 0.0;
    }
  }
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

TEMPLATE_LIST_TEST_CASE(
    "what a solver proves of checkpointing programs is found, and nothing worse than its answers", "",
    test::Solvers) {
  if constexpr (!TestType::integers_alone) {
    int proven = 0;
    for (unsigned seed = 1; seed <= 12; ++seed) {
      const MilpModel model = test::random_checkpointing_program(seed);
      INFO("seed " << seed);
      const MilpResult own = solve_covering(model);
      const MilpResult theirs = TestType::solve(model, {.time_limit_seconds = 0.5});
      check_result(model, own);
      REQUIRE(theirs.has_solution());
      CHECK(own.objective <= theirs.objective + 1e-6);
      CHECK(own.bound <= theirs.objective + 1e-6);
      if (theirs.status != SolveStatus::optimal) continue;
      ++proven;
      CHECK(own.objective == Approx(theirs.objective));
    }
    CHECK(proven > 0);
  }
}

TEST_CASE("rows of blocks hold for every solution, and raise bounds") {
  SECTION("every solution of small programs") {
    int rows = 0;
    for (unsigned seed = 1; seed <= 3000; ++seed) {
      const MilpModel model = random_covering(seed);
      const detail::CoveringProgram program = detail::CoveringReader(model).read();
      if (program.infeasible) continue;
      INFO("seed " << seed << "\n" << test::print(model));
      detail::CoveringBlocks blocks(program);
      blocks.add_rows(
          [](const detail::CoveringProgram& part) {
            detail::CoveringPartHost host;
            detail::CoveringSearch<detail::CoveringPartHost> search(part, {.nodes = 1000, .pivots = 1000},
                                                                    host);
            (void)search.run({});
            return part.rounded_up(search.bound());
          },
          [] { return false; });
      const detail::CoveringRows& strong = blocks.program().rows;
      rows += static_cast<int>(strong.size() - program.rows.size());
      for_each_point(program.upper, [&](std::span<const double> point) {
        bool keeps = true, keeps_all = true;
        for (std::size_t i = 0; i < strong.size(); ++i) {
          const bool kept = strong.surplus(i, point) >= 0.0;
          keeps_all = keeps_all && kept;
          if (i < program.rows.size()) keeps = keeps && kept;
        }
        CHECK(keeps == keeps_all);
      });
    }
    CHECK(rows > 100);
  }
  SECTION("bounds at the root of checkpointing programs") {
    int higher = 0;
    for (unsigned seed = 1; seed <= 60; ++seed) {
      const detail::CoveringProgram program =
          detail::CoveringReader(test::random_checkpointing_program(seed)).read();
      INFO("seed " << seed);
      const auto bound_with = [&](std::int64_t block_nodes) {
        detail::CoveringPartHost host;
        detail::CoveringSearch<detail::CoveringPartHost> search(
            program, {.nodes = 1, .pivots = 1'000'000, .cut_rounds = 20, .block_nodes = block_nodes}, host);
        const auto end = search.run({});
        if (block_nodes > 0 && end == decltype(search)::End::proven)
          CHECK(search.bound() == program.objective(host.best));
        return search.bound();
      };
      const double without = bound_with(0), with = bound_with(100);
      CHECK(with >= without);
      higher += with > without ? 1 : 0;
    }
    CHECK(higher > 3);
  }
}

TEST_CASE("the relaxation of a covering program proves what its point costs") {
  // A basis is exact to rounding as long as no pivot element is itself an error of rounding.
  for (unsigned seed = 1; seed <= 250; ++seed) {
    const detail::CoveringProgram program =
        detail::CoveringReader(test::random_checkpointing_program(seed)).read();
    INFO("seed " << seed);
    detail::CoveringRows rows = program.rows;
    detail::CoveringRelaxation relaxation(program.cost, program.upper, rows);
    detail::CoveringCuts cuts(program.upper);
    for (int round = 0; round < 20; ++round) {
      REQUIRE(relaxation.solve(10'000) == detail::SimplexEnd::optimal);
      const double cost = program.objective(relaxation.point());
      CHECK(relaxation.safe_bound() == Approx(cost).epsilon(1e-6));
      if (!cuts.separate(relaxation, rows)) break;
    }
  }
}

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
    CAPTURE(seed);
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

TEST_CASE("a relaxation that ends outside of equal bounds does not end the search", "[slow]") {
  const MilpModel model = test::random_checkpointing_program(278);
  check_result(model, solve_covering(model, {.node_limit = 20'000}));
}

TEST_CASE("an optimum that no part of the first good solutions leads to is found", "[slow]") {
  const MilpModel model = test::random_checkpointing_program(291);
  const MilpResult result = solve_covering(model);
  check_result(model, result);
  CHECK(result.status == SolveStatus::optimal);
}

// Run by name or with [comparison]: up to three hours for each solver.
TEMPLATE_LIST_TEST_CASE("500 checkpointing programs, next to a solver that has as much time",
                        "[.][comparison]", test::Solvers) {
  if constexpr (!TestType::integers_alone) {
    // Objectives after one second, and the results after ten.
    struct Answer {
      double early = std::numeric_limits<double>::infinity();
      MilpResult last;
    };
    const auto ask = [](auto&& solve) {
      Answer answer;
      const auto note = [&](const MilpIncumbent& found) {
        if (found.seconds <= 1.0) answer.early = std::min(answer.early, found.objective);
        return true;
      };
      answer.last = solve(MilpOptions{.time_limit_seconds = 10.0, .on_incumbent = note});
      return answer;
    };
    constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
    const CoveringSolver covering{{.node_limit = no_limit, .pivot_limit = no_limit}};
    int better = 0, equal = 0, worse = 0, proven = 0, theirs_proven = 0, missed = 0;
    for (unsigned seed = 1; seed <= 500; ++seed) {
      const MilpModel model = test::random_checkpointing_program(seed);
      INFO("seed " << seed);
      const Answer own = ask([&](const MilpOptions& options) { return covering(model, options); });
      const Answer theirs = ask([&](const MilpOptions& options) { return TestType::solve(model, options); });
      check_result(model, own.last);
      CHECK(own.last.bound <= theirs.last.objective + 1e-6);
      CHECK(own.early <= theirs.early + 1e-6);
      const bool known = theirs.last.status == SolveStatus::optimal;
      if (known) CHECK(own.last.objective <= theirs.last.objective + 1e-6);
      ++(own.early < theirs.early - 1e-6 ? better : own.early > theirs.early + 1e-6 ? worse : equal);
      proven += own.last.status == SolveStatus::optimal ? 1 : 0;
      theirs_proven += known ? 1 : 0;
      missed += known && own.last.objective > theirs.last.objective + 1e-6 ? 1 : 0;
    }
    WARN("after a second better " << better << ", equal " << equal << ", worse " << worse
                                  << "; after ten, proven " << proven << ", by the solver " << theirs_proven
                                  << ", of which missed " << missed);
  }
}
