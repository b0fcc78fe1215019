#include "kernels/cuda/cuda_stage.hpp"

#include <string>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/runtime_private.hpp"

namespace slimpack::kernels::cuda {

CudaDevice::CudaDevice() {
  static_cast<void>(use_device({.index = current_device()}));
  streams_.emplace();
}

DeviceMemory CudaDevice::memory(std::size_t bytes, std::string_view what) {
  DeviceNeeds needs{.index = current_device(), .memory = bytes, .what = std::string(what)};
  static_cast<void>(use_device(needs));
  try {
    return DeviceMemory(bytes);
  } catch (const OutOfMemory&) {
    // Another process took it in between, or it is in pieces.
    refuse_memory(use_device({.index = needs.index}), needs);
  }
}

std::int32_t CudaDevice::attention_rows() { return best_attention_rows(); }

TensorMap CudaDevice::tensor_map(const MatrixView<const Bf16>& matrix, int rows) {
  return cuda::tensor_map(matrix, rows);
}

}  // namespace slimpack::kernels::cuda
