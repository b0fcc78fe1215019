#pragma once

#include "kernels/cuda/device/wide_tile.hpp"
#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::cuda {

/// What the copy engine needs to know of a matrix in the GPU's memory.
/// @param rows of a box @throws std::runtime_error if the driver has no tensor maps, or refuses this one.
[[nodiscard]] TensorMap tensor_map(const MatrixView<const Bf16>& matrix, int rows);

}  // namespace slimpack::kernels::cuda
