#pragma once

#include "slimpack/core/ids.hpp"

namespace slimpack {

struct DynamicCpOptions {
  /// Most tokens that each rank holds of a micro-batch (their `max_seqlen_per_dp_cp_rank`); 0: the best of many that are tried.
  Tokens limit = 0;
  /// Whether `nested_rank_groups`, slimpack's own solver, is tried as well. Not a part of the baseline.
  bool nested = false;
};

}  // namespace slimpack
