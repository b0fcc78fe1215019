#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/runtime.hpp"
#include "kernels/cuda/stage_device.hpp"
#include "kernels/profile.hpp"
#include "kernels/profile_transfer.hpp"
#include "slimpack/cost/profile.hpp"

namespace slimpack::kernels::cuda {

/// Median seconds of work in a stream, by the GPU's clock, after a fifth as many warm-up runs.
/// @param run puts the work into the stream. The host waits.
[[nodiscard]] double median_seconds(const OwnedStream& stream, const std::function<void()>& run,
                                    int repeats = 15);

/// What a GPU does at its best.
struct Ceilings {
  double flops = 0.0;      ///< per second: cuBLASLt's product of two matrices of 8192 x 8192 bf16 numbers
  double bandwidth = 0.0;  ///< bytes read and written per second by a copy of 1 GiB
};

/// Measures the calling thread's GPU, on random numbers: on zeros, products are faster than real ones.
/// @throws InvalidInput without a GPU, or if it has not 3 GiB of free memory, saying how much is missing.
[[nodiscard]] Ceilings measure_ceilings();

/// Rows of a device's memory that a transport of the host sends: of `measure_transfers`. Copies go through the queues and
/// the host memory that a stage's port uses.
template <StageDevice D>
class DeviceRows {
 public:
  /// @throws InvalidInput if the device has not the memory.
  explicit DeviceRows(std::size_t bytes)
      : rows_(device_.memory(bytes, "a transfer")), buffer_(device_.host_memory(bytes)) {
    device_.fill(Queue::leave, rows_.bytes(), 0x3c);
    device_.wait_all();
  }

  [[nodiscard]] std::span<std::byte> buffer() { return buffer_.bytes(); }
  [[nodiscard]] std::span<std::byte> rows() { return rows_.bytes(); }
  void leave() { copy(Queue::leave, buffer_.bytes(), rows_.bytes()); }
  void arrive() { copy(Queue::arrive, rows_.bytes(), buffer_.bytes()); }

 private:
  void copy(Queue queue, std::span<std::byte> to, std::span<const std::byte> from) {
    device_.copy(queue, to.data(), from.data(), from.size());
    device_.wait_all();
  }

  D device_;
  typename D::Memory rows_;
  typename D::HostMemory buffer_;
};

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
