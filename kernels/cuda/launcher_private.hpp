#pragma once

#include <cstddef>

#include "kernels/cuda/device/block.hpp"
#include "kernels/cuda/device_group_private.hpp"
#include "kernels/cuda/device_warp_private.hpp"
#include "kernels/cuda/runtime_private.hpp"

namespace slimpack::kernels::cuda {

template <class Kernel>
__global__ void run_kernel(const __grid_constant__ Kernel kernel) {
  DeviceWarp warp;
  kernel(warp);
}

/// Kernels of groups of warps share out the registers among them, so the compiler has to know the threads.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::warps* warp_lanes, 1)
    run_group_kernel(const __grid_constant__ Kernel kernel) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  DeviceGroupWarp warp;
  kernel(warp);
#endif
}

/// Starts kernels in a stream.
struct DeviceLauncher {
  Stream stream = nullptr;

  template <class Kernel>
  void operator()(const Kernel& kernel, const Grid& grid) const {
    if constexpr (requires { Kernel::groups; }) {
      start(run_group_kernel<Kernel>, kernel, grid);
    } else {
      start(run_kernel<Kernel>, kernel, grid);
    }
  }

  /// A matrix for the copy engine. @param rows of a box
  [[nodiscard]] TensorMap tensor_map(const MatrixView<const Bf16>& matrix, int rows) const {
    return cuda::tensor_map(matrix, rows);
  }

 private:
  template <class Kernel>
  void start(void (*run)(Kernel), const Kernel& kernel, const Grid& grid) const {
    // From here on a block has to ask for its shared memory.
    constexpr std::size_t without_asking = std::size_t{48} << 10U;
    if (grid.shared > without_asking) {
      check(cudaFuncSetAttribute(run, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(grid.shared)),
            "asking for a kernel's shared memory");
    }
    run<<<static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.warps * warp_lanes), grid.shared,
          stream>>>(kernel);
    check_launch("starting a kernel");
  }
};

}  // namespace slimpack::kernels::cuda
