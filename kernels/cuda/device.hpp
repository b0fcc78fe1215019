#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// What the machine answers when it is asked for GPUs.
struct DeviceProbe {
  int driver = 0;       ///< newest CUDA that the driver serves: 1000 * major + 10 * minor; 0 without a driver
  int runtime = 0;      ///< CUDA that this program was built with, in the same form
  int count = 0;        ///< GPUs that can be seen
  std::string failure;  ///< what the runtime said instead of a count; empty if it gave one
};

/// A GPU.
struct Device {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  std::size_t memory = 0;               ///< bytes
  std::size_t free_memory = 0;          ///< bytes that nobody has taken yet
  std::size_t block_shared_memory = 0;  ///< most bytes of shared memory that a block may ask for
  std::size_t l2_cache = 0;             ///< bytes
  std::array<std::byte, 16> uuid{};     ///< no other GPU has it
};

/// What a program needs of a GPU.
struct DeviceNeeds {
  int index = 0;            ///< which of the GPUs
  std::size_t memory = 0;   ///< free bytes
  std::string what = "it";  ///< what takes this memory, for messages: "stage 3"
};

/// Least compute capability whose instructions the kernels use: `cp.async` and bf16 matrix products.
inline constexpr int least_major = 8;

namespace detail {

[[nodiscard]] inline std::string cuda_version(int version) {
  return concat(version / 1000, ".", version % 1000 / 10);
}

/// Bytes in MiB; what is missing is rounded up, or nothing would be said to be missing.
[[nodiscard]] inline std::size_t mebibytes(std::size_t bytes) {
  return bytes / (std::size_t{1} << 20U) + (bytes % (std::size_t{1} << 20U) != 0 ? 1 : 0);
}

}  // namespace detail

/// Checks that there is a GPU with this index that this program can talk to.
/// @throws InvalidInput without a driver, with one older than the CUDA of the build, without a GPU, or with
/// too few of them; the message says which, and what to do.
inline void require_reachable(const DeviceProbe& probe, int index) {
  require(probe.driver > 0, "no NVIDIA driver answers on this machine; expected one that serves CUDA ",
          detail::cuda_version(probe.runtime), ": install it, or run without --device cuda");
  // From CUDA 11 on, a driver serves all programs of its major version.
  require(probe.driver / 1000 >= probe.runtime / 1000, "the NVIDIA driver serves CUDA up to ",
          detail::cuda_version(probe.driver), ", but this program was built with CUDA ",
          detail::cuda_version(probe.runtime), "; expected a driver for CUDA ", probe.runtime / 1000,
          " or newer");
  require(probe.failure.empty(), "the CUDA runtime can't list GPUs: ", probe.failure,
          "; expected at least one that answers");
  require(probe.count > 0,
          "the NVIDIA driver sees no GPU; expected at least one (is CUDA_VISIBLE_DEVICES empty?)");
  require(index >= 0 && index < probe.count, "GPU ", index, " is asked for, but there are ", probe.count,
          "; expected a number from 0 to ", probe.count - 1);
}

/// Checks that a GPU can run the kernels and has the memory.
/// @throws InvalidInput if it is too old, or naming the MiB that are missing and what would have taken them.
inline void require_capable(const Device& device, const DeviceNeeds& needs) {
  require(device.major >= least_major, "GPU ", device.index, " (", device.name, ") has compute capability ",
          device.major, ".", device.minor, "; expected at least ", least_major, ".0");
  if (device.free_memory >= needs.memory) return;
  const std::size_t missing = needs.memory - device.free_memory;
  require(false, "GPU ", device.index, " (", device.name, ") has ", device.free_memory >> 20U,
          " MiB free of ", device.memory >> 20U, " MiB, but ", needs.what, " needs ",
          detail::mebibytes(needs.memory), " MiB; expected ", detail::mebibytes(missing), " MiB more");
}

/// Asks the machine. Throws nothing where there is no driver or no GPU, and starts no work on one.
[[nodiscard]] DeviceProbe probe_devices();

/// Number of this thread's current GPU: the last one that it has used, or 0.
[[nodiscard]] int current_device();

/// The GPU that is asked for, checked; it becomes this thread's current one. Starts the runtime on it.
/// @throws InvalidInput as `require_reachable` and `require_capable`, or if the library has no code for
/// this GPU's architecture.
[[nodiscard]] Device use_device(const DeviceNeeds& needs = {});

}  // namespace slimpack::kernels::cuda
