#pragma once

#include "slimpack/core/ids.hpp"
#include "slimpack/planners/micro_batch_options.hpp"
#include "slimpack/stream/outlier_queues.hpp"

namespace slimpack {

struct WlbOptions {
  Tokens context = 0;  ///< the context window, from which L_max is derived
  /// L_max is what memory holds with the least recomputation with which it holds this many contexts.
  double headroom = 2.0;
  ShardingPolicy sharding = ShardingPolicy::mixed;
  /// Beyond the paper: micro-batches in an order that makes the step shorter.
  MicroBatchOrder order = MicroBatchOrder::fastest;
  /// `micro_batches` = 0: pipeline stages times replicas (section 6.1). `max_tokens` = 0: what memory allows.
  OutlierDelayOptions stream = {.micro_batches = 0};
};

}  // namespace slimpack
