#include "kernels/cuda/runtime_private.hpp"

namespace slimpack::kernels::cuda {

namespace {

__global__ void nothing() {}

}  // namespace

bool has_code_for_current_device() {
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, nothing);
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check(error, "looking for this GPU's code");
  return true;
}

}  // namespace slimpack::kernels::cuda
