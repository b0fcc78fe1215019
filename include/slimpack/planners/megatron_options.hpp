#pragma once

#include "slimpack/core/ids.hpp"

namespace slimpack {

struct MegatronOptions {
  Tokens context = 0;  ///< tokens that a pack may hold at most; 0 = the longest sample
};

}  // namespace slimpack
