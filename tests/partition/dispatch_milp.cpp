#include "slimpack/partition/dispatch_milp.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <type_traits>

#include "tests/milp/solvers.hpp"
#include "tests/partition/dispatch_instances.hpp"

using namespace slimpack;

TEMPLATE_LIST_TEST_CASE("solvers of Eq. 3 find the least makespan, and the search is within 1 % of it", "",
                        test::Solvers) {
  const unsigned cases = TestType::integers_alone ? 0 : 60;
  for (unsigned seed = 0; seed < cases; ++seed) {
    const auto in = test::random_dispatch(seed, 1 + seed % 7, 1 + seed / 7 % 4, 3);
    INFO("seed " << seed << ": " << test::print(in));
    const double least = test::LeastDispatch(in).solve();
    for (const bool start : {false, true}) {
      const DispatchMilpResult solved =
          solve_dispatch(in.problem(), TestType::solve, {.start_from_search = start});
      REQUIRE(solved.status == SolveStatus::optimal);
      CHECK(solved.dispatch.makespan() == Approx(least).epsilon(1e-5));
      CHECK(solved.bound <= least * (1.0 + 1e-5));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("with more samples, the search is within 1 % wherever a solver proves an optimum", "",
                        test::Solvers) {
  if (TestType::integers_alone) return;
  int proven = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    const auto in = test::random_dispatch(seed, 14, 4, 3);
    INFO("seed " << seed << ": " << test::print(in));
    const DispatchMilpResult solved =
        solve_dispatch(in.problem(), TestType::solve, {.solver = {.time_limit_seconds = 2.0}});
    CHECK(search_dispatch(in.problem()).dispatch.makespan() >= solved.bound * (1.0 - 1e-6));
    if (solved.status != SolveStatus::optimal) continue;
    ++proven;
    CHECK(search_dispatch(in.problem()).dispatch.makespan() <= 1.01 * solved.dispatch.makespan());
  }
  CAPTURE(proven);
}

TEMPLATE_LIST_TEST_CASE(
    "on hard instances, the search is never worse than 100 trials, and within 1 % of a proven optimum", "",
    test::Solvers) {
  if (TestType::integers_alone) return;
  int better = 0;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    for (const bool light : {false, true}) {
      for (const bool tight : {false, true}) {
        const auto in = test::hard_dispatch(seed, 12, 4, light, tight);
        INFO("seed " << seed << ": " << test::print(in));
        const double own = search_dispatch(in.problem()).dispatch.makespan(),
                     greedy = greedy_dispatch(in.problem()).makespan();
        CHECK(own <= greedy);
        better += own < 0.999 * greedy ? 1 : 0;
        const DispatchMilpResult solved =
            solve_dispatch(in.problem(), TestType::solve, {.solver = {.time_limit_seconds = 1.0}});
        CHECK(own >= solved.bound * (1.0 - 1e-6));
        if (solved.status == SolveStatus::optimal) CHECK(own <= 1.01 * solved.dispatch.makespan());
      }
    }
  }
  CHECK(better > 4);
}
