#include "kernels/cuda/cuda_device.hpp"

#include <string>

#include "kernels/cuda/check_private.hpp"
#include "kernels/cuda/device.hpp"

namespace slimpack::kernels::cuda {

CudaDevice::CudaDevice() {
  static_cast<void>(use_device({.index = current_device()}));
  streams_.emplace();
}

DeviceMemory CudaDevice::memory(std::size_t bytes, std::string_view what) {
  static_cast<void>(use_device({.index = current_device(), .memory = bytes, .what = std::string(what)}));
  return DeviceMemory(bytes);
}

}  // namespace slimpack::kernels::cuda
