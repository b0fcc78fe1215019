#pragma once

namespace slimpack {

/// Why an algorithm stopped. Running out of time or nodes with a solution in hand is `feasible`, not an
/// error.
enum class SolveStatus { optimal, feasible, infeasible, unknown };

}  // namespace slimpack
