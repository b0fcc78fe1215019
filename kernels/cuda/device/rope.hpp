#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/device/block.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// Cosines and sines of the angles `position * theta^(-i / half)`, which can be many turns: in double.
struct RopeTableKernel {
  const std::int32_t* positions = nullptr;  ///< [tokens]
  std::size_t tokens = 0, half = 0;
  double theta = 0;
  float* table = nullptr;  ///< [tokens x 2 x half]: cosines, then sines

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for_each_in_grid<1>(warp, tokens * half, [&](int, std::size_t i) {
      const std::uint32_t token = narrow(i) / narrow(half), pair = narrow(i) - token * narrow(half);
      const double angle =
          positions[token] * pow(theta, -static_cast<double>(pair) / static_cast<double>(half));
      float* row = table + static_cast<std::size_t>(token) * 2 * half;
      row[pair] = static_cast<float>(cos(angle));
      row[half + pair] = static_cast<float>(sin(angle));
    });
  }
};

/// Turns pairs in place, n at a time.
template <int n>
struct RopeKernel {
  MatrixView<Bf16> x;            ///< [tokens x heads * 2 * half]
  const float* table = nullptr;  ///< [tokens x 2 x half]
  std::size_t half = 0;
  float direction = 1;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for (std::size_t row = warp.block(); row < x.rows; row += warp.blocks()) {
      const float* cosines = table + row * 2 * half;
      for_each_in_block<n>(warp, x.cols / 2, [&](int, std::size_t i) {
        const std::uint32_t head = narrow(i) / narrow(half), pair = narrow(i) - head * narrow(half);
        Bf16* low = row_of(x, row) + static_cast<std::size_t>(head) * 2 * half + pair;
        Pack<n> a = load<n>(low), b = load<n>(low + half);
        SLIMPACK_UNROLL
        for (int j = 0; j < n; ++j) {
          const float c = cosines[pair + static_cast<std::uint32_t>(j)];
          const float s = direction * cosines[half + pair + static_cast<std::uint32_t>(j)];
          const float before = a.at[j];
          a.at[j] = before * c - b.at[j] * s;
          b.at[j] = b.at[j] * c + before * s;
        }
        store(low, a);
        store(low + half, b);
      });
    }
  }
};

/// `rope_table` by any launcher; see there.
template <class Launch>
void rope_table_by(Launch&& launch, std::span<const std::int32_t> positions, std::size_t head_dim,
                   double theta, std::span<float> table) {
  require(head_dim > 0 && head_dim % 2 == 0, "head_dim is ", head_dim, "; expected a positive, even number");
  require(theta > 0, "theta is ", theta, "; expected a positive number");
  require(table.size() == positions.size() * head_dim, "the table has ", table.size(), " numbers; expected ",
          positions.size() * head_dim);
  require(table.size() <= 0xffffffffU, "the table has ", table.size(), " numbers; expected less than 2^32");
  if (positions.empty()) return;
  launch(RopeTableKernel{positions.data(), positions.size(), head_dim / 2, theta, table.data()},
         Grid{.blocks = blocks_for((table.size() / 2 + 127) / 128), .warps = 4});
}

/// `rope` (direction 1) and `rope_backward` (-1) by any launcher; see there.
template <class Launch>
void rope_by(Launch&& launch, std::span<const float> table, std::size_t head_dim, const MatrixView<Bf16>& x,
             float direction) {
  require(head_dim > 0 && head_dim % 2 == 0 && x.cols % head_dim == 0, "rows have ", x.cols,
          " numbers and heads ", head_dim, "; expected whole heads of an even size");
  require(table.size() == x.rows * head_dim, "the table has ", table.size(), " numbers; expected ",
          x.rows * head_dim);
  if (x.rows == 0 || x.cols == 0) return;
  const Grid grid{.blocks = blocks_for(x.rows), .warps = 4};
  if (head_dim % 16 == 0 && in_packs(x)) {
    launch(RopeKernel<8>{x, table.data(), head_dim / 2, direction}, grid);
  } else {
    launch(RopeKernel<1>{x, table.data(), head_dim / 2, direction}, grid);
  }
}

}  // namespace slimpack::kernels::cuda
