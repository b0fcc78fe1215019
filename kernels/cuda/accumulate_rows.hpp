#pragma once

#include "kernels/cuda/portable.hpp"
#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::cuda {

/// Adds rows of bf16 to rows of float in the GPU's memory.
/// @throws InvalidInput if the shapes differ; std::runtime_error if the GPU refuses. O(numbers).
void accumulate_rows(const MatrixView<const Bf16>& from, const MatrixView<float>& to, Stream stream);

}  // namespace slimpack::kernels::cuda
