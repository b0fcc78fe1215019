#include "gpu.hpp"

#include "slimpack/core/error.hpp"

#ifdef SLIMPACK_COMMAND_CUDA

#include <algorithm>

#include "kernels/cuda/device.hpp"

namespace slimpack::command {

void require_gpu() { static_cast<void>(kernels::cuda::use_device()); }

double use_gpu(std::size_t local_rank) {
  const auto gpus = std::max(1, kernels::cuda::probe_devices().count);
  const auto device =
      kernels::cuda::use_device({.index = static_cast<int>(local_rank % static_cast<std::size_t>(gpus))});
  return static_cast<double>(device.free_memory);
}

}  // namespace slimpack::command

#else

namespace slimpack::command {

namespace {

[[noreturn]] void refuse() {
  throw InvalidInput(
      "this slimpack has no CUDA; expected one built where a CUDA toolkit of at least 12.8 is found, or a "
      "run "
      "without --device cuda");
}

}  // namespace

void require_gpu() { refuse(); }
double use_gpu(std::size_t) { refuse(); }

}  // namespace slimpack::command

#endif
