#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/portable.hpp"
#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::cuda {

/// Adds rows of bf16 to rows of float in the GPU's memory.
/// @param rows of `to` that they are added to, each at most once, in the GPU's memory; empty for all of them
/// @throws InvalidInput if the shapes differ; std::runtime_error if the GPU refuses. O(numbers).
void accumulate_rows(const MatrixView<const Bf16>& from, const MatrixView<float>& to,
                     std::span<const std::int32_t> rows, Stream stream);

}  // namespace slimpack::kernels::cuda
