#pragma once

namespace slimpack {

/// Why an algorithm stopped. Running out of time or nodes with a solution in hand is `feasible`, not an
/// error.
enum class SolveStatus { optimal, feasible, infeasible, unknown };

/// What a minimisation proved: the value it reached and a value that nothing can go below.
struct Bounds {
  double best = 0.0;   ///< objective of the solution handed back
  double bound = 0.0;  ///< proven lower bound; `bound <= best`

  /// Relative distance from the best possible, `(best - bound) / best`; 0 when proven optimal.
  [[nodiscard]] constexpr double gap() const { return best > 0.0 ? (best - bound) / best : 0.0; }
};

}  // namespace slimpack
