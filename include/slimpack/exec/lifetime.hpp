#pragma once

#include <cstdint>

#include "slimpack/core/ids.hpp"

namespace slimpack {

/// What a stage stores of a token between its tasks. Forward and backward packs cut samples differently, so
/// stores are addressed by sample and token, never by pack.
enum class Store : std::uint8_t {
  activations = 1,   ///< what the token's backward and weight-gradient tasks read
  keys_values = 2,   ///< read by forward and backward of the token and of the sample's later tokens
  statistics = 4,    ///< of attention: output and log-sum-exp per head
  kv_gradients = 8,  ///< summed up by the backward of the token and of the sample's later tokens
};

/// A set of stores, the sum of their values.
using Stores = std::uint8_t;

inline constexpr Stores all_stores = 15;

/// Tokens of a sample whose stores nothing needs any more when the task that lists them is done.
///
/// Backward runs a sample's tokens in reverse: when a token's own backward task is done, all later tokens,
/// which read its keys and values and add to their gradients, are done as well. So everything that is stored
/// of a token goes with its backward task; where a schedule splits the weights' gradients off, activations
/// and KV gradients stay for that task.
struct Release {
  SampleId sample = 0;
  Tokens begin = 0;
  Tokens end = 0;
  Stores stores = all_stores;
  bool last = false;  ///< nothing of the sample remains on this stage after it, so its bookkeeping may go

  [[nodiscard]] constexpr bool holds(Store store) const { return (stores & static_cast<Stores>(store)) != 0; }
  friend bool operator==(const Release&, const Release&) = default;
};

/// Tokens of a forward slice whose backward pack recomputes the stage's first `layers` layers. A recomputed
/// layer keeps its input, keys and values from forward to backward, the others keep all their activations. What
/// `offload_layers` of them keep (`offloaded_layers`) waits in the host's memory.
struct RecomputeRange {
  SampleId sample = 0;
  Tokens begin = 0;
  Tokens end = 0;
  std::int32_t layers = 0;
  std::int32_t offload_layers = 0;

  friend bool operator==(const RecomputeRange&, const RecomputeRange&) = default;
};

}  // namespace slimpack
