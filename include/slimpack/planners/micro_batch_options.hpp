#pragma once

#include <cstdint>

#include "slimpack/cost/pack_attention.hpp"

namespace slimpack {

/// Which micro-batches each replica gets.
enum class ReplicaDealing : std::uint8_t {
  in_turn,   ///< as loaders deal them
  balanced,  ///< equal counts, and work as equal as swaps can make it
};

/// In which order a replica runs its micro-batches.
enum class MicroBatchOrder : std::uint8_t {
  as_given,  ///< as the packing left them
  fastest,   ///< the best of a few orders: light micro-batches fill and drain a pipeline sooner
};

struct MicroBatchOptions {
  ShardingPolicy sharding = ShardingPolicy::mixed;
  ReplicaDealing dealing = ReplicaDealing::balanced;
  MicroBatchOrder order = MicroBatchOrder::fastest;
};

}  // namespace slimpack
