#pragma once

#include "slimpack/model/device.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/model/transformer.hpp"
#include "slimpack/strategy/reshard.hpp"
#include "slimpack/strategy/reshard_seconds.hpp"
#include "slimpack/strategy/reshard_shards.hpp"

namespace slimpack {

/// Seconds between a phase of a step on one strategy and the next phase on another: parameters go from where the first has them
/// to where the second needs them, and gradients to the optimiser's shards, which are aligned with the second.
/// @param weight_bytes, gradient_bytes of each parameter. @throws InvalidInput as `propagation_shards` or `reshard_seconds`.
/// Complexity: that of two `plan_reshard`.
[[nodiscard]] inline double switch_seconds(const Strategy& from, const Strategy& to, const Transformer& model,
                                           const Device& device, double weight_bytes, double gradient_bytes) {
  const ParameterShards before = propagation_shards(from, model);
  const ParameterShards after = propagation_shards(to, model);
  const ParameterShards optimiser = aligned_shards(to, model);
  const double pull = reshard_seconds(plan_reshard(before, after, device), device, weight_bytes).slowest();
  // A push is a pull from the optimiser's shards, read backwards (`ReshardPlan`).
  const double push =
      reshard_seconds(plan_reshard(optimiser, before, device), device, gradient_bytes).slowest();
  return pull + push;
}

}  // namespace slimpack
