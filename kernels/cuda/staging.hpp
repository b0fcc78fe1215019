#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "kernels/cuda/stage_device.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// Host memory for what a step's tasks are told, which stays as it is until the device has copied it. Taken before the step's
/// first task, and used again by later steps.
template <StageDevice D>
class Staging {
 public:
  /// @param device has to outlive it.
  explicit Staging(D& device) : device_(device) {}

  /// Call while the device has nothing to do. @param bytes that the step's tasks are told, at most
  void begin_step(std::size_t bytes) {
    used_ = 0;
    if (memory_.bytes().size() >= bytes) return;
    memory_ = typename D::HostMemory{};  // or both would be there
    memory_ = device_.host_memory(bytes);
  }

  /// A copy of some bytes. @throws InvalidInput if there are more than the step was begun with.
  [[nodiscard]] const std::byte* keep(std::span<const std::byte> bytes) {
    const std::span<std::byte> memory = memory_.bytes();
    require(bytes.size() <= memory.size() - used_, "a task is told ", bytes.size(),
            " bytes; expected at most ", memory.size() - used_, ", of ", memory.size(),
            " for the step: is a task run twice?");
    std::byte* at = memory.data() + used_;
    if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
    used_ += bytes.size();
    return at;
  }

 private:
  D& device_;
  typename D::HostMemory memory_;
  std::size_t used_ = 0;
};

}  // namespace slimpack::kernels::cuda
