#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "slimpack/core/error.hpp"
#include "slimpack/exec/high_water.hpp"

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
  std::size_t free_memory = 0;          ///< bytes that are not allocated
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
  require_memory(static_cast<double>(needs.memory), static_cast<double>(device.free_memory), needs.what,
                 " on GPU ", device.index, " (", device.name, ", ",
                 slimpack::detail::bytes_text(static_cast<double>(device.memory), false), ")");
}

/// Memory that a GPU has refused, though it may have looked as if it had it.
/// @throws InvalidInput, always: as `require_capable`, or saying that what is free is in pieces or reserved.
[[noreturn]] inline void refuse_memory(const Device& device, const DeviceNeeds& needs) {
  require_capable(device, needs);
  throw InvalidInput(concat(needs.what, " needs ",
                            slimpack::detail::bytes_text(static_cast<double>(needs.memory), true),
                            ", which GPU ", device.index, " (", device.name, ") refuses, with ",
                            slimpack::detail::bytes_text(static_cast<double>(device.free_memory), false),
                            " free; expected as much in one piece"));
}

/// @throws InvalidInput unless the build has code for the GPU.
inline void require_code(const Device& device, bool has_code) {
  require(has_code, "slimpack has no code for GPU ", device.index, " (", device.name, ", compute capability ",
          device.major, ".", device.minor, "); expected it among the build's SLIMPACK_CUDA_ARCHITECTURES");
}

/// The GPU of a machine that is asked for, checked.
/// @param machine `probe()`, `device(index)` and `has_code(device)` ask it, in this order
/// @throws InvalidInput as `require_reachable`, `require_capable` and `require_code`.
template <class Machine>
[[nodiscard]] Device choose_device(Machine&& machine, const DeviceNeeds& needs) {
  require_reachable(machine.probe(), needs.index);
  Device device = machine.device(needs.index);
  require_capable(device, needs);
  require_code(device, machine.has_code(device));
  return device;
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
