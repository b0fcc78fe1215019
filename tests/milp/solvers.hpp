#pragma once

#include <catch2/catch.hpp>
#include <tuple>

#include "slimpack/milp/back_end.hpp"
#include "tests/milp/exhaustive.hpp"

#ifdef SLIMPACK_TEST_GLPK
#include "slimpack/milp/glpk.hpp"
#endif
#ifdef SLIMPACK_TEST_CBC
#include "slimpack/milp/cbc.hpp"
#endif
#ifdef SLIMPACK_TEST_HIGHS
#include "slimpack/milp/highs.hpp"
#endif

namespace test {

/// What holds for every result.
inline void check_result(const slimpack::MilpModel& model, const slimpack::MilpResult& result) {
  const bool solved =
      result.status == slimpack::SolveStatus::optimal || result.status == slimpack::SolveStatus::feasible;
  CHECK(result.seconds >= 0.0);
  CHECK(result.nodes >= 0);
  if (solved) {
    REQUIRE(result.values.size() == model.variables());
    REQUIRE_FALSE(find_violation(model, result.values));
    CHECK(result.objective == objective_value(model, result.values));
    CHECK((model.minimises() ? result.bound <= result.objective : result.bound >= result.objective));
    CHECK(result.gap == slimpack::relative_gap(result.objective, result.bound));
    CHECK((result.limit == slimpack::MilpLimit::none) == (result.status == slimpack::SolveStatus::optimal));
  }
  if (result.status == slimpack::SolveStatus::unknown) CHECK(result.limit != slimpack::MilpLimit::none);
  CHECK(result.message.empty() == (result.limit != slimpack::MilpLimit::failure));
}

struct EveryPoint {
  static constexpr bool integers_alone = true;
  static slimpack::MilpResult solve(const slimpack::MilpModel& model,
                                    const slimpack::MilpOptions& options = {}) {
    return solve_exhaustively(model, options);
  }
};
#ifdef SLIMPACK_TEST_GLPK
struct Glpk {
  static constexpr bool integers_alone = false;
  static slimpack::MilpResult solve(const slimpack::MilpModel& model,
                                    const slimpack::MilpOptions& options = {}) {
    return slimpack::solve_glpk(model, options);
  }
};
#endif
#ifdef SLIMPACK_TEST_CBC
struct Cbc {
  static constexpr bool integers_alone = false;
  static slimpack::MilpResult solve(const slimpack::MilpModel& model,
                                    const slimpack::MilpOptions& options = {}) {
    return slimpack::solve_cbc(model, options);
  }
};
#endif
#ifdef SLIMPACK_TEST_HIGHS
struct Highs {
  static constexpr bool integers_alone = false;
  static slimpack::MilpResult solve(const slimpack::MilpModel& model,
                                    const slimpack::MilpOptions& options = {}) {
    return slimpack::solve_highs(model, options);
  }
};
#endif

using Solvers = std::tuple<EveryPoint
#ifdef SLIMPACK_TEST_GLPK
                           ,
                           Glpk
#endif
#ifdef SLIMPACK_TEST_CBC
                           ,
                           Cbc
#endif
#ifdef SLIMPACK_TEST_HIGHS
                           ,
                           Highs
#endif
                           >;

}  // namespace test
