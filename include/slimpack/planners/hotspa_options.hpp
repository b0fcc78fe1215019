#pragma once

#include <cstddef>

#include "slimpack/core/ids.hpp"
#include "slimpack/cost/synchronise.hpp"

namespace slimpack {

struct HotSpaOptions {
  /// Tokens that a pack may hold at most; 0 = the longest sample.
  Tokens context = 0;
  /// Classes of lengths, each with a strategy of its own; HotSPa sets three or four. 1 = one homogeneous strategy for
  /// all samples.
  std::size_t most_classes = 4;
  /// Lengths at which a class may end: the longest sample, and its halves, quarters, ….
  std::size_t thresholds = 8;
  /// Strategies that are looked at for each class: those that are fastest on it.
  std::size_t rivals = 4;
  double weight_bytes = SyncOptions{}.weight_bytes;      ///< of a parameter that moves at a switch
  double gradient_bytes = SyncOptions{}.gradient_bytes;  ///< of a gradient that moves at a switch
};

}  // namespace slimpack
