#pragma once

#include <algorithm>
#include <string_view>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/communication.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/cost/profile.hpp"
#include "slimpack/model/device.hpp"

namespace slimpack {

/// Where a profile's rates become a device's constants, of which there are fewer.
struct DeviceOfOptions {
  double stage_layers = 5.0;  ///< of stages whose packs have the device's overhead: llama-13b's on 8 stages
  Tokens slice = 4096;        ///< length of the sample at which attention has the profile's seconds
  double peak_flops = 0.0;  ///< FLOP/s that fractions are of, as the vendor's; 0: as measured, or the base's
};

namespace detail {

/// FLOP/s of bf16 or float numbers, as `Device::peak_flops` counts them: of doubles, half as many.
[[nodiscard]] constexpr double rate_of_device(double rate, const Profile& p) {
  return p.real_bytes == 8 ? 2.0 * rate : rate;
}

/// Bytes per second of RMSNorm and SwiGLU in the numbers that a layer has of each; 0 if they were not measured.
[[nodiscard]] inline double operator_bandwidth(const Profile& p) {
  const auto seconds = [&](std::string_view name) {
    for (const OperatorRate& o : p.operators) {
      if (o.name == name) return o.seconds_per_number;
    }
    return 0.0;
  };
  const double norm = seconds("rms_norm"), swiglu = seconds("swiglu");
  if (norm <= 0.0 || swiglu <= 0.0) return 0.0;
  const double hidden = p.model.hidden, ffn = p.model.ffn;
  return (4.0 * hidden + 3.0 * ffn) * p.real_bytes / (2.0 * hidden * norm + 2.0 * ffn * swiglu);
}

/// Seconds of a layer per token but for attention, with its share of what a stage takes per token.
[[nodiscard]] inline double layer_seconds_per_token(const Profile& p, Pass pass, double stage_layers) {
  return p.of(pass).layer.per_token + p.of(pass).stage.per_token / stage_layers;
}

/// Seconds that memory-bound operators of a layer take per token, times the bandwidth.
[[nodiscard]] inline double layer_bytes_per_token(const Profile& p, Pass pass) {
  return streamed_numbers_per_token(p.model) * p.real_bytes * (pass == Pass::forward ? 1.0 : 2.0);
}

/// Seconds per key that the calibrated model charges for a slice's prefix on a device of this bandwidth, as far as the
/// profile has them: these are no part of attention's rate, which is of whole samples, and are a price per token there.
[[nodiscard]] inline double prefix_seconds_per_key(const Profile& p, Pass pass, double memory_bandwidth) {
  const double kv_bytes = 2.0 * p.model.kv_heads * p.model.head_dim * p.real_bytes;
  return std::min(p.of(pass).layer.per_key, prefix_bytes(kv_bytes, bytes_per_bf16, pass) / memory_bandwidth);
}

/// FLOP/s of attention for a whole sample of some length; 0 if it takes no time.
[[nodiscard]] inline double attention_rate(const Profile& p, Pass pass, Tokens sample,
                                           double prefix_per_key) {
  const PackRates& layer = p.of(pass).layer;
  const double seconds = (layer.per_key - prefix_per_key) * static_cast<double>(sample) +
                         layer.per_twice_pair * twice_causal_pairs(0, sample);
  return seconds > 0.0 ? rate_of_device(slice_flops(p.model, 0, sample, pass).attention / seconds, p) : 0.0;
}

}  // namespace detail

/// The constants of a device with which the calibrated model (SlimPack, section 5.1) prices packs as a profile does, for
/// models and layouts that were not measured.
///   - `memory_bandwidth`: of a large copy (GPUs), or of RMSNorm and SwiGLU by themselves (CPU), else the base's; more
///     if memory-bound operators would otherwise take above nine tenths of a layer's seconds per token.
///   - `gemm_efficiency`, `gemm_backward_efficiency`: FLOPs of dense products per token, over the peak and what is left
///     of these seconds. Seconds of a stage per token are shared by its layers.
///   - `attention_forward`, `attention_backward`: FLOPs of attention over the peak and its seconds, for one sample. Of
///     the price per key, what the calibrated model charges for a slice's prefix is not attention's.
///   - `pack_overhead`: the mean of both passes' constants of a pack of one slice, on a stage that is not the last.
///   - `inter_node`: the profile's transfers. `memory_bytes`: a GPU's. `name`: the machine's.
/// What only the first or the last stage takes has no constant, and recomputation costs what the forward pass does.
/// @param base all other constants, and those that were not measured.
/// @returns a valid device. Its `peak_flops` is above what was asked for if more was achieved, so that no fraction
/// exceeds 1.
/// @throws InvalidInput if the profile, the base or an option is impossible. O(operators).
[[nodiscard]] inline Device device_of(const Profile& p, const Device& base, const DeviceOfOptions& o = {}) {
  validate(p);
  validate(base);
  require(o.stage_layers > 0.0 && o.stage_layers < 1e9, "stage_layers is ", o.stage_layers,
          "; expected a positive number");
  require(o.slice > 0 && o.slice <= (Tokens{1} << 40), "slice is ", o.slice, "; expected 1 to 2^40");
  require(o.peak_flops >= 0.0 && o.peak_flops < 1e30, "peak_flops is ", o.peak_flops,
          "; expected zero or a positive number");
  Device d = base;
  if (!p.machine.empty()) d.name = p.machine;
  d.inter_node = p.transfer;
  if (p.device) d.memory_bytes = p.device->memory_bytes;
  const double measured = p.device ? p.device->memory_bandwidth : detail::operator_bandwidth(p);
  if (measured > 0.0) d.memory_bandwidth = measured;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    constexpr double most = 0.9;
    d.memory_bandwidth =
        std::max(d.memory_bandwidth, detail::layer_bytes_per_token(p, pass) /
                                         (most * detail::layer_seconds_per_token(p, pass, o.stage_layers)));
  }
  const auto prefix = [&](Pass pass) { return detail::prefix_seconds_per_key(p, pass, d.memory_bandwidth); };
  d.peak_flops = o.peak_flops > 0.0 ? o.peak_flops : p.device ? p.device->peak_flops : base.peak_flops;
  const auto gemm_rate = [&](Pass pass) {
    const double seconds = detail::layer_seconds_per_token(p, pass, o.stage_layers) + prefix(pass) -
                           detail::layer_bytes_per_token(p, pass) / d.memory_bandwidth;
    return detail::rate_of_device(slice_flops(p.model, 0, 1, pass).linear / seconds, p);
  };
  const double gemm[] = {gemm_rate(Pass::forward), gemm_rate(Pass::backward)};
  const double attention[] = {detail::attention_rate(p, Pass::forward, o.slice, prefix(Pass::forward)),
                              detail::attention_rate(p, Pass::backward, o.slice, prefix(Pass::backward))};
  d.peak_flops = std::max({d.peak_flops, gemm[0], gemm[1], attention[0], attention[1]});
  d.gemm_efficiency = gemm[0] / d.peak_flops;
  d.gemm_backward_efficiency = gemm[1] / d.peak_flops;
  if (attention[0] > 0.0) d.attention_forward = attention[0] / d.peak_flops;
  if (attention[1] > 0.0) d.attention_backward = attention[1] / d.peak_flops;
  const auto constants = [&](const PassRates& pass) {
    return pass.stage.per_pack + o.stage_layers * (pass.layer.per_pack + pass.layer.per_slice);
  };
  d.pack_overhead = (constants(p.forward) + constants(p.backward)) / 2.0;
  return d;
}

}  // namespace slimpack
