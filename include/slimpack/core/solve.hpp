#pragma once

namespace slimpack {

/// Why an algorithm stopped. Running out of time or nodes with a solution in hand is `feasible`, not an
/// error. `unbounded`: there is always a better solution (linear programs alone).
enum class SolveStatus { optimal, feasible, infeasible, unknown, unbounded };

}  // namespace slimpack
