#pragma once

#include <cstddef>

namespace slimpack {

struct DynaPipeOptions {
  /// Context parallelism may take ranks from data parallelism; if not, it is the layout's.
  bool choose_cp = true;
  /// Clusters of similar micro-batches whose orders are all tried, 1 to 6.
  std::size_t clusters = 4;
  /// Splits whose orders are searched, for each degree of context parallelism: those that are fastest in their given order.
  std::size_t finalists = 3;
};

}  // namespace slimpack
