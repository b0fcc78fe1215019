#include "tests/kernels_cuda/host_stage.hpp"

#include "kernels/cuda/stage_definitions.hpp"

// A build of the files that have [threads] alone also needs this one.
namespace slimpack::kernels::cuda {

template class DeviceStage<testing::HostDevice>;

}  // namespace slimpack::kernels::cuda
