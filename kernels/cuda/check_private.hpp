#pragma once

// For the back end's own sources only: the toolkit stays out of its headers.
#include <cuda_runtime.h>

#include <stdexcept>
#include <string_view>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// What to do about an error, as far as the error tells.
[[nodiscard]] inline std::string_view advice(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "; the GPU's memory is taken: use smaller packs, more stages, or recomputation";
    case cudaErrorNoKernelImageForDevice:
      return "; configure with this GPU's architecture in SLIMPACK_CUDA_ARCHITECTURES";
    case cudaErrorInsufficientDriver:
      return "; install a newer NVIDIA driver";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
      return "; an earlier kernel may have failed: run under compute-sanitizer";
    default:
      return "";
  }
}

/// @throws std::runtime_error unless a call of the runtime succeeded: its number, name and place, what was
/// tried, and what can be done.
inline void check(cudaError_t error, std::string_view what, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (error == cudaSuccess) [[likely]] {
    return;
  }
  throw std::runtime_error(concat("CUDA error ", static_cast<int>(error), " (", cudaGetErrorName(error), ": ",
                                  cudaGetErrorString(error), ") in ", what, ", ", file, ":", line,
                                  advice(error)));
}

/// After each launch: checks the launch itself, and earlier errors that were not asked for.
inline void check_launch(std::string_view kernel, const char* file = __builtin_FILE(),
                         int line = __builtin_LINE()) {
  check(cudaGetLastError(), kernel, file, line);
}

}  // namespace slimpack::kernels::cuda
