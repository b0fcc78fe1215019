#pragma once

#include <functional>

#include "kernels/cuda/runtime.hpp"

namespace slimpack::kernels::cuda {

/// Median seconds of work in a stream, by the GPU's clock, after a fifth as many warm-up runs.
/// @param run puts the work into the stream. The host waits.
[[nodiscard]] double median_seconds(const OwnedStream& stream, const std::function<void()>& run,
                                    int repeats = 15);

/// What a GPU does at its best.
struct Ceilings {
  double flops = 0.0;      ///< per second: cuBLASLt's product of two matrices of 8192 x 8192 bf16 numbers
  double bandwidth = 0.0;  ///< bytes read and written per second by a copy of 1 GiB
};

/// Measures the calling thread's GPU, on random numbers: on zeros, products are faster than real ones.
/// @throws InvalidInput without a GPU, or if it has not 3 GiB of free memory, saying how much is missing.
[[nodiscard]] Ceilings measure_ceilings();

}  // namespace slimpack::kernels::cuda
