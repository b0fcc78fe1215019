#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/ceilings.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/profile.hpp"
#include "kernels/profile_transfer.hpp"
#include "slimpack/cost/profile.hpp"

namespace slimpack::kernels::cuda {

/// Bytes of a GPU that stages may take: what is free, but for what the runtime and cuBLASLt load when they need it.
[[nodiscard]] inline double usable_bytes(const Device& device) {
  constexpr std::size_t loaded = std::size_t{1} << 30U;
  return static_cast<double>(device.free_memory - std::min(device.free_memory, loaded));
}

/// A GPU's part of a profile, without what stages achieve.
[[nodiscard]] inline MeasuredDevice measured_device(const Device& device, const Ceilings& ceilings) {
  return {.memory_bytes = usable_bytes(device),
          .peak_flops = ceilings.flops,
          .memory_bandwidth = ceilings.bandwidth};
}

/// Measures stages of a profile's model on a device, and fits their rates. Where the options leave it open, stages have two
/// layers: a layer's weights are larger than a GPU's caches, and memory goes to tokens instead.
/// @tparam S a `DeviceStage`. @tparam Rows as for `measure_transfers`.
/// @param device its ceilings and memory. @param options its clock is the device's; `most_tokens` at least 16384.
/// @param prepare called with each stage once it is made: gives it the library's attention that the options choose.
/// @param[in,out] profile has `model`; gets all else but the machine's name and the date.
/// @throws InvalidInput as `measure_back_end` and `fit_tasks`.
template <StageBackEnd S, class Rows, class Prepare = AsMade>
BackEndTimes profile_device(const MeasuredDevice& device, ProfileOptions options, Profile& profile,
                            const Prepare& prepare = {}) {
  constexpr Tokens most_tokens = 16384;
  options.clock = ProfileClock::wall;  // of updates: tasks have the device's
  options.most_tokens = std::max(options.most_tokens, most_tokens);
  if (options.stage_layers == 0) options.stage_layers = 2;
  options.stage.graphs = false;  // plans of batches differ from step to step
  profile.real_bytes = sizeof(typename S::Number);
  BackEndTimes times = measure_back_end<S>(profile.model, options, prepare);
  fit_back_end(times, profile);
  profile.optimiser_seconds_per_parameter = measure_update<S>(profile.model, options, prepare);
  profile.transfer =
      measure_link<Rows>(static_cast<std::size_t>(profile.model.hidden) * sizeof(typename S::Number));
  profile.device = device;
  profile.device->attention = options.stage.attention;
  profile.device->attention_forward = attention_share(profile, Pass::forward, device.peak_flops);
  profile.device->attention_backward = attention_share(profile, Pass::backward, device.peak_flops);
  return times;
}

}  // namespace slimpack::kernels::cuda
