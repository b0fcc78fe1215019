#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/block.hpp"
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

/// A lane's part of a product's left factor, or of two neighbouring right ones.
struct Fragment {
  std::uint32_t at[4];
};

/// A lane's part of the sums [16 x width] of a warp.
template <int width>
struct Sums {
  float at[width / 8][4];
};

/// Products of a warp's 16 rows with tiles in shared memory, by `mma.sync` (sm_80 and later). Attention's
/// kernels are generic over it: another one has to offer the same three functions.
struct MmaSyncProduct {
  /// 16 rows and 16 columns of a swizzled tile, as a left factor.
  template <int width, class Warp>
  SLIMPACK_DEVICE static void load_left(Warp& warp, const Bf16* tile, int row, int step,
                                        LanesOf<Warp, Fragment>& out) {
    warp.template load_matrices<false>(
        [&](int lane) { return tile + SwizzledTile<width>::offset(row + lane % 16, step * 2 + lane / 16); },
        [&](int lane) { return out[lane].at; });
  }

  /// sums [16 x columns] += left(step) [16 x 16] times those columns of tile^T, for all steps of the width.
  /// @param tile [columns x width] @param left gives the left factor's fragments of a step
  template <int width, int columns, class Warp, class Left>
  SLIMPACK_DEVICE static void multiply_transposed(Warp& warp, const Left& left, const Bf16* tile,
                                                  LanesOf<Warp, Sums<columns>>& sums) {
    SLIMPACK_UNROLL
    for (int step = 0; step < width / 16; ++step) {
      const LanesOf<Warp, Fragment> a = left(step);
      SLIMPACK_UNROLL
      for (int c = 0; c < columns / 16; ++c) {
        LanesOf<Warp, Fragment> b;
        warp.template load_matrices<false>(
            [&](int lane) {
              return tile +
                     SwizzledTile<width>::offset(c * 16 + lane % 8 + lane / 16 * 8, step * 2 + lane / 8 % 2);
            },
            [&](int lane) { return b[lane].at; });
        multiply_pair<columns>(warp, a, b, c, sums);
      }
    }
  }

  /// sums [16 x width] += left(step) [16 x 16] times those rows of the tile, for all steps of the depth.
  /// @param tile [depth x width] @param left gives the left factor's fragments of a step
  template <int depth, int width, class Warp, class Left>
  SLIMPACK_DEVICE static void multiply(Warp& warp, const Left& left, const Bf16* tile,
                                       LanesOf<Warp, Sums<width>>& sums) {
    SLIMPACK_UNROLL
    for (int step = 0; step < depth / 16; ++step) {
      const LanesOf<Warp, Fragment> a = left(step);
      SLIMPACK_UNROLL
      for (int c = 0; c < width / 16; ++c) {
        LanesOf<Warp, Fragment> b;
        warp.template load_matrices<true>(
            [&](int lane) {
              return tile + SwizzledTile<width>::offset(step * 16 + lane % 16, c * 2 + lane / 16);
            },
            [&](int lane) { return b[lane].at; });
        multiply_pair<width>(warp, a, b, c, sums);
      }
    }
  }

 private:
  /// Two neighbouring tiles of sums, 8 columns each.
  template <int width, class Warp>
  SLIMPACK_DEVICE static void multiply_pair(Warp& warp, const LanesOf<Warp, Fragment>& a,
                                            const LanesOf<Warp, Fragment>& b, int c,
                                            LanesOf<Warp, Sums<width>>& sums) {
    SLIMPACK_UNROLL
    for (int half = 0; half < 2; ++half) {
      warp.multiply([&](int lane) { return sums[lane].at[c * 2 + half]; },
                    [&](int lane) { return a[lane].at; }, [&](int lane) { return b[lane].at + half * 2; });
    }
  }
};

/// Sums as the left factor of another product: their columns are its depth.
template <class Warp, int width>
[[nodiscard]] SLIMPACK_DEVICE inline LanesOf<Warp, Fragment> as_left(Warp& warp,
                                                                     const LanesOf<Warp, Sums<width>>& sums,
                                                                     int step) {
  LanesOf<Warp, Fragment> out;
  warp.lanes([&](int lane) {
    SLIMPACK_UNROLL
    for (int reg = 0; reg < 4; ++reg) {
      const float* from = sums[lane].at[step * 2 + reg / 2] + reg % 2 * 2;
      out[lane].at[reg] = to_bf16_pair(from[0], from[1]);
    }
  });
  return out;
}

/// Starts to copy rows of one head to a swizzled tile, dealt out to all threads of the block; rows from
/// `valid` on become zeros.
template <int rows, int width, class Warp>
SLIMPACK_DEVICE inline void copy_tile(Warp& warp, const Bf16* from, std::size_t stride, std::int64_t valid,
                                      Bf16* tile) {
  constexpr int chunks = width / chunk_numbers;
  warp.lanes([&](int lane) {
    for (int i = warp.warp() * warp_lanes + lane; i < rows * chunks; i += warp.warps() * warp_lanes) {
      const int row = i / chunks, chunk = i % chunks;
      const bool is_valid = row < valid;
      // No address beyond the rows is formed, even where none is read.
      const Bf16* at = from + (is_valid ? static_cast<std::size_t>(row) * stride : 0) + chunk * chunk_numbers;
      warp.copy_chunk(tile + SwizzledTile<width>::offset(row, chunk), at, is_valid);
    }
  });
}

}  // namespace slimpack::kernels::cuda
