#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_backward.hpp"
#include "kernels/cuda/device/attention_tiles.hpp"
#include "kernels/cuda/device/warp_product.hpp"
#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::cuda {

/// A block per item and head: 16 queries a warp, against the keys of their sample tile by tile.
template <int dim, class Product = MmaSyncProduct>
struct AttentionQueryGradientKernel {
  static constexpr int keys = 32;  ///< of a tile
  static constexpr int warps = attention_rows / 16;
  static constexpr std::size_t shared = sizeof(Bf16) * dim * (2 * attention_rows + 4 * keys);

  AttentionArguments a;
  AttentionSaved saved;
  const QueryItem* items = nullptr;
  MatrixView<Bf16> dq;  ///< [tokens x heads * dim]

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const auto head = static_cast<int>(warp.block() % static_cast<std::size_t>(a.heads));
    const QueryItem item = items[warp.block() / static_cast<std::size_t>(a.heads)];
    const QueryTile queries = query_tile(a, item, attention_rows);
    const int tiles = (queries.seen + keys - 1) / keys;

    auto* q_tile = static_cast<Bf16*>(warp.shared());
    Bf16* dout_tile = q_tile + attention_rows * dim;
    Bf16* stages = dout_tile + attention_rows * dim;  // of keys and values
    copy_tile<attention_rows, dim>(warp, row_of(a.q, queries.first_row) + head * dim, a.q.stride,
                                   queries.rows, q_tile);
    copy_tile<attention_rows, dim>(warp, row_of(saved.dout, queries.first_row) + head * dim,
                                   saved.dout.stride, queries.rows, dout_tile);
    copy_keys<keys, dim>(warp, a, queries, head, 0, stages);

    LanesOf<Warp, TwoRows> lse, delta;
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int row = warp.warp() * 16 + place_in_sum(lane, half * 2).row;
        const std::size_t token = queries.first_row + static_cast<std::size_t>(row);
        const auto h = static_cast<std::size_t>(head);
        // A row that there is not has no probabilities.
        lse[lane].at[half] = row < queries.rows ? row_of(saved.lse, h)[token] * log2_of_e : INFINITY;
        delta[lane].at[half] = row < queries.rows ? row_of(saved.delta, h)[token] : 0.0F;
      }
    });
    LanesOf<Warp, Sums<dim>> sums{};
    for (int tile = 0; tile < tiles; ++tile) {
      if (tile + 1 < tiles) {
        copy_keys<keys, dim>(warp, a, queries, head, tile + 1, stages + (tile + 1) % 2 * 2 * keys * dim);
        warp.template wait_copies<1>();
      } else {
        warp.template wait_copies<0>();
      }
      warp.sync();
      const Bf16* k_tile = stages + tile % 2 * 2 * keys * dim;
      LanesOf<Warp, Sums<keys>> scores{}, gradients{};
      multiply_rows<Product, dim, keys>(warp, q_tile, k_tile, scores);
      multiply_rows<Product, dim, keys>(warp, dout_tile, k_tile + keys * dim, gradients);
      const int limit = queries.last_key(warp.warp() * 16) - tile * keys;  // of row 0
      differentiate(warp, limit, queries.step(), lse, delta, scores, gradients);
      Product::template multiply<keys, dim>(
          warp, [&](int step) { return as_left<Warp, keys>(warp, gradients, step); }, k_tile, sums);
      warp.sync();
    }
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int half = 0; half < 2; ++half) {
        const Place at = place_in_sum(lane, half * 2);
        const int row = warp.warp() * 16 + at.row;
        if (row >= queries.rows) continue;
        Bf16* to = row_of(dq, queries.first_row + static_cast<std::size_t>(row)) + head * dim + at.col;
        SLIMPACK_UNROLL
        for (int n = 0; n < dim / 8; ++n) {
          const float* from = sums[lane].at[n] + half * 2;
          store_pair(to + n * 8, from[0] * a.scale, from[1] * a.scale);
        }
      }
    });
  }

 private:
  /// Gradients of the probabilities become those of the scores. Row r sees keys up to limit + step * r.
  template <class Warp>
  SLIMPACK_DEVICE void differentiate(Warp& warp, int limit, int step, const LanesOf<Warp, TwoRows>& lse,
                                     const LanesOf<Warp, TwoRows>& delta,
                                     const LanesOf<Warp, Sums<keys>>& scores,
                                     LanesOf<Warp, Sums<keys>>& gradients) const {
    const float factor = a.scale * log2_of_e;
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int n = 0; n < keys / 8; ++n) {
        SLIMPACK_UNROLL
        for (int i = 0; i < 4; ++i) {
          const Place at = place_in_sum(lane, i);
          const bool is_seen = n * 8 + at.col <= limit + step * at.row;
          const float p = is_seen ? power_of_2(scores[lane].at[n][i] * factor - lse[lane].at[i / 2]) : 0.0F;
          gradients[lane].at[n][i] = p * (gradients[lane].at[n][i] - delta[lane].at[i / 2]);
        }
      }
    });
  }
};

}  // namespace slimpack::kernels::cuda
