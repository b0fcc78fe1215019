#pragma once

#include "slimpack/core/ids.hpp"

namespace slimpack {

struct MegatronOptions {
  Tokens context = 0;  ///< tokens that a pack may hold at most; 0 = the longest sample
  /// Tokens up to which packs are filled, from the longest sample to the context; 0 = the best of `useful_pack_lengths`.
  Tokens pack_tokens = 0;
  /// Packs may recompute different numbers of layers, which Megatron-LM does not offer.
  bool recompute_each_pack = false;
  /// Layers may wait in the host's memory in place of being recomputed, if that is faster.
  bool offload = false;
  bool choose_cp =
      true;  ///< if not, context parallelism is the layout's, and takes no ranks from data parallelism
};

}  // namespace slimpack
