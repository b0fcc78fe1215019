#pragma once

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/stage.hpp"

namespace slimpack::kernels::cuda {

/// A stage on an NVIDIA GPU: the back end of `RankExecutor` in slimpack::kernels_cuda.
using CudaStage = DeviceStage<CudaDevice>;

extern template class DeviceStage<CudaDevice>;

}  // namespace slimpack::kernels::cuda
