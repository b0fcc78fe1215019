#pragma once

#include "kernels/cuda/stage.hpp"
#include "tests/kernels_cuda/host_device.hpp"

namespace slimpack::testing {

/// A GPU's stage that runs on the host. Its kernels take half a minute to compile: host_stage.cpp does so once for all files.
using HostStage = kernels::cuda::DeviceStage<HostDevice>;

}  // namespace slimpack::testing

namespace slimpack::kernels::cuda {

extern template class DeviceStage<testing::HostDevice>;

}  // namespace slimpack::kernels::cuda
