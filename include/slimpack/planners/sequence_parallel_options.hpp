#pragma once

#include <cstddef>

#include "slimpack/core/ids.hpp"

namespace slimpack {

struct DeepSpeedOptions {
  Tokens context = 0;  ///< tokens that a pack may hold at most; 0 = the longest sample
  /// Tokens up to which packs are filled, from the longest sample to the context; 0 = the best of `useful_pack_lengths`.
  Tokens pack_tokens = 0;
};

struct FlexSpOptions {
  Tokens context =
      0;  ///< up to which packs of groups of one size, as DeepSpeed has them, are filled as well; 0 = the longest sample
  Tokens limit =
      0;  ///< most tokens that each rank holds of a micro-batch; 0: the best of many that are tried
  /// Numbers of micro-batches that are tried in a row without a shorter step, for each limit, from the fewest that hold
  /// the samples.
  std::size_t micro_batch_trials = 4;
  /// Splits of the ranks that are tried for each micro-batch (`flexible_groups`) while limits and numbers are searched …
  std::size_t split_trials = 8;
  std::size_t final_split_trials = 96;  ///< … and for those of the best
};

}  // namespace slimpack
