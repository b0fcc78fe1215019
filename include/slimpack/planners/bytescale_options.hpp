#pragma once

#include "slimpack/core/ids.hpp"

namespace slimpack {

struct ByteScaleOptions {
  Tokens context = 0;  ///< tokens that a pack of a static mesh may hold at most; 0 = the longest sample
  /// Most tokens that each rank holds of a pack; 0: the best of many that are tried.
  Tokens limit = 0;
  /// Layers may wait in the host's memory in place of being recomputed, if that is faster.
  bool offload = false;
};

}  // namespace slimpack
