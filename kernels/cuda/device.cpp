#include "kernels/cuda/device.hpp"

#include <cstring>

#include "kernels/cuda/runtime_private.hpp"

namespace slimpack::kernels::cuda {

namespace {

[[nodiscard]] int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "reading a GPU's attributes");
  return value;
}

}  // namespace

DeviceProbe probe_devices() {
  DeviceProbe probe;
  if (cudaDriverGetVersion(&probe.driver) != cudaSuccess) probe.driver = 0;
  check(cudaRuntimeGetVersion(&probe.runtime), "reading the runtime's version");
  if (probe.driver > 0) {
    const cudaError_t error = cudaGetDeviceCount(&probe.count);
    if (error != cudaSuccess) probe.count = 0;
    if (error != cudaSuccess && error != cudaErrorNoDevice) probe.failure = cudaGetErrorString(error);
    static_cast<void>(cudaGetLastError());  // or the first launch would report it
  }
  return probe;
}

int current_device() {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // without a GPU or a driver
    return 0;
  }
  return device;
}

namespace {

/// This one.
struct ThisMachine {
  [[nodiscard]] static DeviceProbe probe() { return probe_devices(); }
  [[nodiscard]] static Device device(int index);
  [[nodiscard]] static bool has_code(const Device&) { return has_code_for_current_device(); }
};

/// Makes it the thread's.
Device ThisMachine::device(int index) {
  check(cudaSetDevice(index), "choosing a GPU");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "reading a GPU's properties");
  Device device{.index = index,
                .name = properties.name,
                .major = properties.major,
                .minor = properties.minor,
                .multiprocessors = properties.multiProcessorCount,
                .block_shared_memory =
                    static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index)),
                .l2_cache = static_cast<std::size_t>(attribute(cudaDevAttrL2CacheSize, index))};
  static_assert(sizeof properties.uuid == sizeof device.uuid);
  std::memcpy(device.uuid.data(), &properties.uuid, sizeof device.uuid);
  check(cudaMemGetInfo(&device.free_memory, &device.memory), "asking for a GPU's free memory");
  return device;
}

}  // namespace

Device use_device(const DeviceNeeds& needs) { return choose_device(ThisMachine{}, needs); }

}  // namespace slimpack::kernels::cuda
