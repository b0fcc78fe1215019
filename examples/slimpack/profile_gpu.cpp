#ifdef SLIMPACK_COMMAND_TRAINS
#include "profile_gpu.hpp"

#include "gpu.hpp"

#ifdef SLIMPACK_COMMAND_CUDA

#include <algorithm>

#include "kernels/cuda/cuda_stage.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/device_rows.hpp"
#include "kernels/cuda/profile_device.hpp"
#include "rank_memory.hpp"

namespace slimpack::command {

kernels::BackEndTimes measure_gpu(kernels::ProfileOptions options, Profile& profile) {
  namespace cuda = kernels::cuda;
  const cuda::Device device = cuda::use_device();
  profile.machine = device.name;
  const double free = cuda::usable_bytes(device);
  options.stage = stage_options(true, true, std::min(options.stage.limit_bytes, free));
  return cuda::profile_device<cuda::CudaStage, cuda::DeviceRows<cuda::CudaDevice>>(
      cuda::measured_device(device, cuda::measure_ceilings()), options, profile);
}

}  // namespace slimpack::command

#else

namespace slimpack::command {

kernels::BackEndTimes measure_gpu(kernels::ProfileOptions, Profile&) {
  require_gpu();  // says that there is no CUDA here
  return {};
}

}  // namespace slimpack::command

#endif
#endif
