#pragma once

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
