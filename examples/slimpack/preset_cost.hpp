#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/cost/calibrated.hpp"

namespace slimpack::command {

/// Time on ranks that train, by the calibrated model of a device: one core's constants, or a GPU's. A CostModel that
/// knows recomputation and merging; stages may hold any number of layers.
class PresetCost {
 public:
  /// @param device peak_flops of 32-bit numbers. @param layers held by each stage. @param pipelines that
  /// train together. @param number_bytes 4 or 8; with 8, half as many operations in a second. 2 on GPUs, whose
  /// peak_flops are of 16-bit numbers.
  /// @param exchange of merged packs: ring or ulysses.
  PresetCost(const Transformer& model, const Device& device, std::span<const std::int32_t> layers,
             std::size_t pipelines, double number_bytes, ContextExchange exchange = ContextExchange::ring)
      : layer_(two_layers(model, scaled(device, number_bytes)), {.exchange = exchange}),
        layers_(layers.begin(), layers.end()),
        recompute_(layers.size()),
        pipelines_(static_cast<double>(pipelines)) {}

  [[nodiscard]] std::size_t stages() const { return layers_.size(); }

  [[nodiscard]] double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    const double one = layer_.slice_seconds(0, begin, end, pass);
    double seconds = layers_[stage] * one;
    if (pass == Pass::backward && recompute_[stage] > 0)
      seconds += recompute_[stage] * layer_.slice_seconds(0, begin, end, Pass::forward);
    const bool last = stage + 1 == stages();
    return last ? seconds + std::max(0.0, layer_.slice_seconds(1, begin, end, pass) - one) : seconds;
  }

  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const {
    return layer_.pack_seconds(stage, pass);
  }

  [[nodiscard]] double transfer_seconds(Tokens tokens, Pass pass) const {
    return layer_.transfer_seconds(tokens, pass);
  }

  [[nodiscard]] PresetCost with_recompute(std::span<const std::int32_t> layers) const {
    PresetCost copy = *this;
    copy.recompute_.assign(layers.begin(), layers.end());
    return copy;
  }

  [[nodiscard]] bool supports_context_parallel(std::int32_t group) const {
    return layer_.supports_context_parallel(group);
  }

  [[nodiscard]] PresetCost with_context_parallel(std::int32_t group) const {
    PresetCost copy = *this;
    copy.layer_ = layer_.with_context_parallel(group);
    return copy;
  }

  /// Exchange of gradients and weights among the pipelines, and the sharded optimiser's step, on the slowest
  /// stage.
  [[nodiscard]] double sync_seconds() const {
    const Job& job = layer_.job();
    double slowest = 0.0;
    for (std::size_t s = 0; s < stages(); ++s) {
      double parameters = layers_[s] * layer_parameters(job.model);
      if (s == 0) parameters += embedding_parameters(job.model);
      if (s + 1 == stages()) parameters += embedding_parameters(job.model) + job.model.hidden;
      slowest = std::max(slowest, parameters);
    }
    const double bytes = slowest * bytes_per_bf16;  // the device's rates count numbers as 16-bit ones
    const double moved = 2.0 * bytes * (pipelines_ - 1.0) / pipelines_;
    constexpr double touched = 7.0;  // weight and both moments twice, gradient once
    return moved / job.device.inter_node.bandwidth +
           touched * bytes / pipelines_ / job.device.memory_bandwidth;
  }

 private:
  /// The calibrated model counts numbers of 2 bytes: rates are turned into as many numbers per second.
  static Device scaled(Device device, double number_bytes) {
    const double share = bytes_per_bf16 / number_bytes;
    if (number_bytes > bytes_per_bf16) device.peak_flops *= 4.0 / number_bytes;
    device.memory_bandwidth *= share;
    for (Link* link : {&device.intra_node, &device.inter_node, &device.host}) link->bandwidth *= share;
    return device;
  }

  /// Stage 0 costs one layer, stage 1 one layer and the head.
  static Job two_layers(Transformer model, const Device& device) {
    model.layers = 2;
    return {std::move(model), device, {.pp = 2}};
  }

  CalibratedCost layer_;
  std::vector<std::int32_t> layers_, recompute_;
  double pipelines_;
};

}  // namespace slimpack::command
