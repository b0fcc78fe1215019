#include "gpu.hpp"

#include "slimpack/core/error.hpp"

#ifdef SLIMPACK_COMMAND_CUDA

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "kernels/cuda/device.hpp"

namespace slimpack::command {

namespace cuda = kernels::cuda;

namespace {

/// A machine with GPUs that are good, but for one thing.
struct TestMachine {
  std::string_view lacks;

  [[nodiscard]] cuda::DeviceProbe probe() const {
    const int driver = lacks == "none" ? 0 : lacks == "driver" ? 12080 : 13000;
    return {.driver = driver, .runtime = 13000, .count = lacks == "none" ? 0 : 8, .failure = {}};
  }
  [[nodiscard]] cuda::Device device(int index) const {
    cuda::Device device{.index = index, .name = "test GPU", .major = lacks == "architecture" ? 7 : 9};
    device.memory = device.free_memory = std::size_t{1} << 30U;
    return device;
  }
  [[nodiscard]] bool has_code(const cuda::Device&) const { return lacks != "code"; }
};

/// The one that tests put in this machine's place.
std::optional<TestMachine> test_machine() {
  const char* lacks = std::getenv("SLIMPACK_TEST_GPU");
  return lacks != nullptr ? std::optional(TestMachine{lacks}) : std::nullopt;
}

}  // namespace

void require_cuda() {}

void require_gpu() {
  const auto test = test_machine();
  cuda::require_reachable(test ? test->probe() : cuda::probe_devices(), 0);
}

double use_gpu(std::size_t local_rank) {
  const auto test = test_machine();
  const auto gpus =
      static_cast<std::size_t>(std::max(1, test ? test->probe().count : cuda::probe_devices().count));
  const cuda::DeviceNeeds needs{.index = static_cast<int>(local_rank % gpus)};
  const cuda::Device device = test ? cuda::choose_device(*test, needs) : cuda::use_device(needs);
  return static_cast<double>(device.free_memory);
}

}  // namespace slimpack::command

#else

namespace slimpack::command {

void require_cuda() {
  throw InvalidInput(
      "this slimpack has no CUDA; expected one built where a CUDA toolkit of at least 12.8 is found, or a "
      "run without --device cuda");
}

void require_gpu() { require_cuda(); }

double use_gpu(std::size_t) {
  require_cuda();
  return 0.0;
}

}  // namespace slimpack::command

#endif

namespace slimpack::command {

AttentionChoice attention_from(const std::string& attention, bool cuda) {
  const auto choice = attention_named(attention);
  require(choice.has_value(), "--attention is '", attention, "'; expected ", attention_names);
  if (*choice == AttentionChoice::ours) return *choice;
  require(cuda, "--attention is 'cudnn'; expected no such option without --device cuda");
#ifndef SLIMPACK_COMMAND_CUDNN
  throw InvalidInput(
      "this slimpack has no cuDNN; expected one built where cuDNN and its front end are found, or "
      "--attention "
      "ours");
#else
  return *choice;
#endif
}

}  // namespace slimpack::command
