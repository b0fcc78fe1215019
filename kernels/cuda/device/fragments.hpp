#pragma once

#include "kernels/cuda/portable.hpp"

namespace slimpack::kernels::cuda {

/// Row and column of a number within a tile.
struct Place {
  int row, col;
};

// Which numbers a lane holds of the tiles of `mma.sync.m16n8k16` on bf16 (PTX ISA, "Matrix Fragments for
// mma.m16n8k16"). A register of A and B holds two bf16, `element` 0 in the lower half.

/// Of A [16 x 16], registers 0 to 3.
[[nodiscard]] SLIMPACK_HOST_DEVICE constexpr Place place_in_a(int lane, int reg, int element) {
  return {lane / 4 + reg % 2 * 8, lane % 4 * 2 + element + reg / 2 * 8};
}

/// Of B [16 x 8], registers 0 and 1.
[[nodiscard]] SLIMPACK_HOST_DEVICE constexpr Place place_in_b(int lane, int reg, int element) {
  return {lane % 4 * 2 + element + reg * 8, lane / 4};
}

/// Of the sum [16 x 8], numbers 0 to 3.
[[nodiscard]] SLIMPACK_HOST_DEVICE constexpr Place place_in_sum(int lane, int i) {
  return {lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2};
}

/// Of one of the 8 x 8 matrices of `ldmatrix`, whose row r lane r's address names.
[[nodiscard]] SLIMPACK_HOST_DEVICE constexpr Place place_in_loaded(int lane, int element, bool transposed) {
  const Place plain{lane / 4, lane % 4 * 2 + element};
  return transposed ? Place{plain.col, plain.row} : plain;
}

/// Bf16 that are moved together: 16 bytes, a row of an 8 x 8 matrix.
inline constexpr int chunk_numbers = 8;

/// A tile of bf16 rows in shared memory. Chunks of a row change places from row to row, so that the 8 rows of
/// an 8 x 8 matrix lie in different banks: 128 bytes are all banks once.
template <int width>
struct SwizzledTile {
  static_assert(width % 16 == 0 && (width & (width - 1)) == 0, "widths are powers of two from 16");
  static constexpr int chunks = width / chunk_numbers;
  static constexpr int rows_per_line = chunks < 8 ? 8 / chunks : 1;
  static constexpr int places = chunks < 8 ? chunks : 8;  ///< that a chunk may move among

  /// Where a row's chunk begins, in numbers.
  [[nodiscard]] SLIMPACK_HOST_DEVICE static constexpr int offset(int row, int chunk) {
    return row * width + (chunk ^ row / rows_per_line % places) * chunk_numbers;
  }
};

}  // namespace slimpack::kernels::cuda
