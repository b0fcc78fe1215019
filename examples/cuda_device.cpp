// Says which GPU the CUDA back end would use. Without one it says what is missing, and exits with 2.
#include <exception>
#include <iostream>

#include "kernels/cuda/device.hpp"

int main() {
  try {
    const auto device = slimpack::kernels::cuda::use_device();
    std::cout << device.name << ", compute capability " << device.major << "." << device.minor << ", "
              << device.multiprocessors << " multiprocessors, " << (device.free_memory >> 20U) << " of "
              << (device.memory >> 20U) << " MiB free\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "cuda_device: " << error.what() << "\n";
    return 2;
  }
}
