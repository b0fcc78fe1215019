#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string_view>

#include "kernels/cuda/device/wide_tile.hpp"
#include "kernels/math/matrix.hpp"
#include "slimpack/core/error.hpp"

// For the back end's own sources only: the toolkit stays out of its headers.
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

/// Whether the library was compiled for the current GPU, or for one whose code it can run.
[[nodiscard]] bool has_code_for_current_device();

/// What the copy engine needs to know of a matrix in the GPU's memory.
/// @param rows of a box @throws std::runtime_error if the driver has no tensor maps, or refuses this one.
[[nodiscard]] TensorMap tensor_map(const MatrixView<const Bf16>& matrix, int rows);

}  // namespace slimpack::kernels::cuda
