#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "slimpack/cost/calibrated.hpp"

namespace slimpack::command {

/// Equal pipelines whose stages are single ranks of a back end. Rank `d + pipelines * s` is stage s of pipeline d.
/// @param layers held by each stage.
[[nodiscard]] inline Strategy rank_strategy(std::span<const std::int32_t> layers, std::size_t pipelines) {
  Strategy strategy;
  for (std::size_t d = 0; d < pipelines; ++d) {
    PipelineSpec& spec = strategy.pipelines.emplace_back();
    spec.layers.assign(layers.begin(), layers.end());
    for (std::size_t s = 0; s < layers.size(); ++s)
      spec.devices.push_back({static_cast<DeviceId>(d + pipelines * s)});
  }
  strategy.kind.assign(pipelines, 0);
  return strategy;
}

/// Time on ranks that train, by the calibrated model of a device: one core's constants, or a GPU's.
/// @param device peak_flops of 32-bit numbers; of 16-bit numbers on GPUs. @param number_bytes 4 or 8; with 8, half as
/// many operations in a second. 2 on GPUs. @param exchange of merged packs: ring or all_to_all.
[[nodiscard]] inline CalibratedCost preset_cost(const Transformer& model, Device device,
                                                const Strategy& strategy, std::uint32_t kind,
                                                double number_bytes,
                                                KeyExchange exchange = KeyExchange::ring) {
  // The calibrated model counts numbers of 2 bytes: rates are turned into as many numbers per second.
  const double share = bytes_per_bf16 / number_bytes;
  if (number_bytes > bytes_per_bf16) device.peak_flops *= 4.0 / number_bytes;
  device.memory_bandwidth *= share;
  for (Link* link : {&device.intra_node, &device.inter_node, &device.host}) link->bandwidth *= share;
  constexpr double touched = 7.0;  // weight and both moments twice, gradient once
  return CalibratedCost(model, device, strategy, kind,
                        {.exchanges = {exchange},
                         .sync = {.gradient_bytes = bytes_per_bf16,
                                  .weight_bytes = bytes_per_bf16,
                                  .optimiser_bytes = touched * bytes_per_bf16}});
}

}  // namespace slimpack::command
