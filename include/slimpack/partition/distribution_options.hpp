#pragma once

#include <limits>
#include <vector>

#include "slimpack/partition/groups.hpp"

namespace slimpack {

struct DistributorOptions {
  GroupSizes group_sizes = GroupSizes::any;
  /// Most tokens of one sample that fit into a member's memory.
  double memory_tokens = std::numeric_limits<double>::infinity();
  /// Samples are priced in slices as if there were this many times as many packs as are expected: a search goes for more
  /// packs rather than for fewer.
  double slices_per_pack = 1.5;
  /// Capacities of merged groups are tried this factor apart up to 1.5 times the mean work …
  double fine_step = 1.02;
  /// … and this one above.
  double coarse_step = 1.1;
};

/// What a distribution should be like.
struct DistributionOptions {
  bool merge = true;  ///< whether samples are merged to save time; otherwise only where memory asks for it
  /// Most tokens of one sample that a member should hold: longer samples are merged over more pipelines even if that
  /// takes more time in total, so that less has to be recomputed.
  double most_tokens = std::numeric_limits<double>::infinity();
  /// Most tokens of one sample that a member holds at all, if that is less than `DistributorOptions` has.
  double memory_tokens = std::numeric_limits<double>::infinity();
  /// Seconds that each pipeline works beyond its samples, by its place; may be empty.
  std::vector<double> overhead = {};
  double merged_overhead = 0.0;  ///< of pipelines with merged samples
};

}  // namespace slimpack
