#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_tiles.hpp"
#include "kernels/cuda/device/warp_product.hpp"
#include "kernels/cuda/device/wide_tile.hpp"
#include "kernels/math/matrix.hpp"

// Attention's gradients, with P the probabilities and D = rowsum(dO * O):
//
//     P = exp(Q K^T scale - lse)    dS = P * (dO V^T - D)    dQ = scale dS K
//     dV = P^T dO                                            dK = scale dS^T Q
//
// Queries' gradients and keys' gradients have a kernel each, and both compute P and dS: 7 products instead of
// 5, but no block adds to what another adds to, so there are no atomics and no order to wait for.
namespace slimpack::kernels::cuda {

/// What forward has kept, and the output's gradient.
struct AttentionSaved {
  MatrixView<const Bf16> dout;         ///< [tokens x heads * dim]
  MatrixView<const float> lse, delta;  ///< [heads x tokens]
};

/// Where the copy engine finds what the gradients' kernels read.
struct AttentionBackwardMaps {
  TensorMap q, k, v, dout;
};

/// A warp per token: delta = sum of dout * out for each head. 8 or 16 lanes share a head.
struct AttentionDeltaKernel {
  MatrixView<const Bf16> out, dout;  ///< [tokens x heads * dim]
  int heads = 0, dim = 0;
  MatrixView<float> delta;  ///< [heads x tokens]

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const std::uint32_t sharing = static_cast<std::uint32_t>(dim) / 8;  // a power of two
    const std::uint32_t packs = static_cast<std::uint32_t>(heads) * sharing;
    for_each_row_in_grid(warp, out.rows, [&](std::size_t token) {
      for (std::uint32_t first = 0; first < packs; first += warp_lanes) {
        LanesOf<Warp, float> sum{};
        warp.lanes([&](int lane) {
          const std::uint32_t pack = first + static_cast<std::uint32_t>(lane);
          if (pack >= packs) return;
          const Pack<8> a = load<8>(row_of(out, token) + 8 * pack),
                        b = load<8>(row_of(dout, token) + 8 * pack);
          SLIMPACK_UNROLL
          for (int j = 0; j < 8; ++j) sum[lane] += a.at[j] * b.at[j];
        });
        combine_lanes<Warp, float>(warp, sum, static_cast<int>(sharing) / 2,
                                   [](float x, float y) { return x + y; });
        warp.lanes([&](int lane) {
          const std::uint32_t pack = first + static_cast<std::uint32_t>(lane);
          if (pack < packs && pack % sharing == 0) row_of(delta, pack / sharing)[token] = sum[lane];
        });
      }
    });
  }
};

}  // namespace slimpack::kernels::cuda
