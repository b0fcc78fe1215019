#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/cuda/stage_device.hpp"

namespace slimpack::kernels::cuda {

/// Host memory for what a step's tasks are told, which stays as it is until the device has copied it. Grows in the first steps,
/// and is used again by later ones.
template <StageDevice D>
class Staging {
 public:
  /// @param device has to outlive it.
  explicit Staging(D& device) : device_(device) {}

  /// Call while the device has nothing to do.
  void begin_step() { chunk_ = used_ = 0; }

  /// A copy of some bytes.
  [[nodiscard]] const std::byte* keep(std::span<const std::byte> bytes) {
    while (chunk_ < chunks_.size() && chunks_[chunk_].bytes().size() - used_ < bytes.size()) {
      ++chunk_;
      used_ = 0;
    }
    if (chunk_ == chunks_.size()) chunks_.push_back(device_.host_memory(std::max(least, bytes.size())));
    std::byte* at = chunks_[chunk_].bytes().data() + used_;
    if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
    used_ += bytes.size();
    return at;
  }

 private:
  static constexpr std::size_t least = std::size_t{1} << 20U;

  D& device_;
  std::vector<typename D::HostMemory> chunks_;
  std::size_t chunk_ = 0, used_ = 0;
};

}  // namespace slimpack::kernels::cuda
