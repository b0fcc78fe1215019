#pragma once

#include <cstdlib>

#include "slimpack/milp/back_end.hpp"

#ifdef SLIMPACK_BENCH_GLPK
#include "slimpack/milp/glpk.hpp"
#endif
#ifdef SLIMPACK_BENCH_CBC
#include "slimpack/milp/cbc.hpp"
#endif
#ifdef SLIMPACK_BENCH_HIGHS
#include "slimpack/milp/highs.hpp"
#endif

namespace bench {

/// The solvers that this build has, each with the name of its benchmarks.
template <class Use>
void for_each_solver(const Use& use) {
#ifdef SLIMPACK_BENCH_GLPK
  use("glpk", slimpack::solve_glpk);
#endif
#ifdef SLIMPACK_BENCH_CBC
  use("cbc", slimpack::solve_cbc);
#endif
#ifdef SLIMPACK_BENCH_HIGHS
  use("highs", slimpack::solve_highs);
#endif
  static_cast<void>(use);
}

/// The time limit of a solve that the environment names. @param otherwise if it names none.
[[nodiscard]] inline double seconds_allowed(double otherwise) {
  const char* const named = std::getenv("SLIMPACK_MILP_SECONDS");
  return named == nullptr ? otherwise : std::atof(named);
}

}  // namespace bench
