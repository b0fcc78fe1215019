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

/// A warp per token and head: delta = sum of dout * out.
struct AttentionDeltaKernel {
  MatrixView<const Bf16> out, dout;  ///< [tokens x heads * dim]
  int heads = 0, dim = 0;
  MatrixView<float> delta;  ///< [heads x tokens]

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const auto warps = static_cast<std::size_t>(warp.warps()), all_heads = static_cast<std::size_t>(heads);
    for (std::size_t i = warp.block() * warps + static_cast<std::size_t>(warp.warp());
         i < out.rows * all_heads; i += warp.blocks() * warps) {
      const std::size_t token = i / all_heads, head = i % all_heads;
      const std::size_t column = head * static_cast<std::size_t>(dim);
      LanesOf<Warp, float> sum{};
      warp.lanes([&](int lane) {
        for (int c = lane; c < dim; c += warp_lanes) {
          sum[lane] += to_float(row_of(out, token)[column + static_cast<std::size_t>(c)]) *
                       to_float(row_of(dout, token)[column + static_cast<std::size_t>(c)]);
        }
      });
      combine_lanes<Warp, float>(warp, sum, warp_lanes / 2, [](float x, float y) { return x + y; });
      warp.lanes([&](int lane) {
        if (lane == 0) row_of(delta, head)[token] = sum[lane];
      });
    }
  }
};

}  // namespace slimpack::kernels::cuda
