#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/solve.hpp"

namespace slimpack {

/// A solution that is better than all before it, while the solver goes on.
struct MilpIncumbent {
  double objective = 0.0;
  double bound = 0.0;                   ///< no solution is better than this; infinite if nothing is known yet
  std::span<const double> values = {};  ///< of the variables; valid during the call
  double seconds = 0.0;                 ///< since the start
};

/// What every back end is asked for.
struct MilpOptions {
  /// Wall-clock time; not negative. A solver looks at the clock between steps, so it may end later.
  double time_limit_seconds = std::numeric_limits<double>::infinity();
  /// The solver may end once `gap` of its result is at most this; 0 = when optimality is proven.
  double relative_gap = 0.0;
  int threads = 1;  ///< at most this many
  /// For a solver's random numbers. Without a time limit, equal models, options and seeds give equal
  /// results.
  std::uint32_t seed = 0;
  /// Called for every solution that is better than the initial one and all before it. The solver ends soon
  /// after it returns false. The solve throws what it throws.
  std::function<bool(const MilpIncumbent&)> on_incumbent = {};
};

/// What ended a solve before optimality was proven.
enum class MilpLimit : std::uint8_t {
  none,      ///< nothing: the status is final
  gap,       ///< the gap asked for is reached
  time,      ///< the time limit
  work,      ///< a limit on nodes or steps
  callback,  ///< `on_incumbent` returned false
  failure,   ///< the solver gave up, by numerical trouble for instance; `message` says what it said
};

/// What a back end found. The values keep bounds and rows to within 1e-6 (`find_violation`), and integers are
/// exact if rounding them does not break the model.
struct MilpResult {
  /// `optimal`: proven, up to the solver's tolerances. `feasible`: the best solution found, its initial one
  /// included. `infeasible`, `unbounded`: proven. `unknown`: ended without a solution.
  SolveStatus status = SolveStatus::unknown;
  MilpLimit limit = MilpLimit::none;
  double objective = std::numeric_limits<double>::quiet_NaN();  ///< of the values; NaN without any
  /// No solution is better: below when minimising, above when maximising; the objective itself if optimal,
  /// and infinite if nothing is known.
  double bound = std::numeric_limits<double>::quiet_NaN();
  /// |objective - bound| / |objective|; 0 if they are equal, infinite without one of them.
  double gap = std::numeric_limits<double>::infinity();
  std::vector<double> values = {};  ///< of the variables; empty without a solution
  double seconds = 0.0;             ///< wall clock
  std::int64_t nodes = 0;           ///< of the search tree
  std::string message = {};         ///< the solver's words on a failure

  [[nodiscard]] bool has_solution() const { return std::isfinite(objective); }
};

/// Distance of an objective from a bound, as a share of the objective: 0 if they are equal, infinite if one
/// is missing.
[[nodiscard]] inline double relative_gap(double objective, double bound) {
  if (objective == bound) return 0.0;
  if (!std::isfinite(objective) || !std::isfinite(bound) || objective == 0.0)
    return std::numeric_limits<double>::infinity();
  return std::abs(objective - bound) / std::abs(objective);
}

/// @throws InvalidInput naming every option that no back end can work with.
inline void validate(const MilpOptions& options) {
  std::string wrong;
  const auto expect = [&](bool ok, const auto&... text) {
    if (!ok) wrong += concat(wrong.empty() ? "" : "; ", text...);
  };
  expect(options.time_limit_seconds >= 0.0, "time_limit_seconds is ", options.time_limit_seconds,
         ", expected 0 or more");
  expect(options.relative_gap >= 0.0 && std::isfinite(options.relative_gap), "relative_gap is ",
         options.relative_gap, ", expected a finite number, 0 or more");
  expect(options.threads >= 1, "threads is ", options.threads, ", expected at least 1");
  require(wrong.empty(), wrong);
}

}  // namespace slimpack
