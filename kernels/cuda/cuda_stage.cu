#include "kernels/cuda/cuda_stage.hpp"

#include "kernels/cuda/launcher_private.hpp"
#include "kernels/cuda/stage_definitions.hpp"

namespace slimpack::kernels::cuda {

template <class Kernel>
void CudaDevice::launch(const Kernel& kernel, const Grid& grid) const {
  DeviceLauncher{stream(Queue::compute)}(kernel, grid);
}

template class DeviceStage<CudaDevice>;

}  // namespace slimpack::kernels::cuda
