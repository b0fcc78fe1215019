#include "profile_gpu.hpp"

#include "gpu.hpp"

#ifdef SLIMPACK_COMMAND_CUDA

#include <algorithm>
#include <iostream>
#include <memory>

#include "kernels/cuda/cuda_stage.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/profile_device.hpp"
#include "rank_memory.hpp"
#ifdef SLIMPACK_COMMAND_CUDNN
#include "kernels/cuda/cudnn/cudnn_attention.hpp"
#endif

namespace slimpack::command {

kernels::BackEndTimes measure_gpu(const kernels::ProfileOptions& asked_for, Profile& profile) {
  namespace cuda = kernels::cuda;
  const cuda::Device device = cuda::use_device();
  profile.machine = device.name;
  const double free = cuda::usable_bytes(device);
  const kernels::StageOptions& asked = asked_for.stage;
  kernels::ProfileOptions options = asked_for;
  options.stage = stage_options(true, true, std::min(asked.limit_bytes, free));
  options.stage.attention = asked.attention;
  options.stage.attention_workspace = asked.attention_workspace;
  const auto use = std::make_shared<cuda::AttentionUse>();
  const auto prepare = [&]([[maybe_unused]] cuda::CudaStage& stage) {
#ifdef SLIMPACK_COMMAND_CUDNN
    if (asked.attention == AttentionChoice::cudnn)
      stage.set_attention(cuda::counted(cuda::cudnn_library(), asked.attention_workspace, use));
#endif
  };
  kernels::BackEndTimes times = cuda::profile_device<cuda::CudaStage, cuda::DeviceRows<cuda::CudaDevice>>(
      cuda::measured_device(device, cuda::measure_ceilings()), options, profile, prepare);
  if (use->ours > 0) {
    std::clog << use->ours << " of " << use->ours + use->library
              << " packs run slimpack's attention, not cuDNN's; the first: " << use->refusal << std::endl;
  }
  if (use->any_order > 0) {
    std::clog << "in " << use->any_order << " of " << use->ours + use->library
              << " packs cuDNN adds up gradients in any order: in a fixed one it would need a workspace of "
                 "more than "
                 "--attention-workspace"
              << std::endl;
  }
  return times;
}

}  // namespace slimpack::command

#else

namespace slimpack::command {

kernels::BackEndTimes measure_gpu(const kernels::ProfileOptions&, Profile&) {
  require_gpu();  // says that there is no CUDA here
  return {};
}

}  // namespace slimpack::command

#endif
