#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_softmax.hpp"
#include "kernels/cuda/device/attention_tiles.hpp"
#include "kernels/cuda/device/warp_product.hpp"
#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::cuda {

/// A block per item and head: 16 queries a warp against the keys of their sample, tile by tile, with an online
/// softmax (Milakov and Gimelshein) as in FlashAttention-2 (Dao). While a tile is worked on, the next comes.
template <int dim, class Product = MmaSyncProduct>
struct AttentionForwardKernel {
  static constexpr int keys = 64;  ///< of a tile
  static constexpr int warps = attention_rows / 16;
  static constexpr std::size_t shared = sizeof(Bf16) * dim * (attention_rows + 4 * keys);

  AttentionArguments a;
  const QueryItem* items = nullptr;
  MatrixView<Bf16> out;
  MatrixView<float> lse;  ///< [heads x tokens]

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const auto head = static_cast<int>(warp.block() % static_cast<std::size_t>(a.heads));
    const QueryItem item = items[warp.block() / static_cast<std::size_t>(a.heads)];
    const QueryTile queries = query_tile(a, item, attention_rows);
    const int tiles = (queries.seen + keys - 1) / keys;

    auto* q_tile = static_cast<Bf16*>(warp.shared());
    Bf16* stages = q_tile + attention_rows * dim;  // of keys and values
    copy_tile<attention_rows, dim>(warp, row_of(a.q, queries.first_row) + head * dim, a.q.stride,
                                   queries.rows, q_tile);
    copy_keys<keys, dim>(warp, a, queries, head, 0, stages);

    LanesOf<Warp, Fragment> q[dim / 16];
    LanesOf<Warp, Sums<dim>> sums{};
    SoftmaxRows<Warp> softmax(warp);
    for (int tile = 0; tile < tiles; ++tile) {
      if (tile + 1 < tiles) {
        copy_keys<keys, dim>(warp, a, queries, head, tile + 1, stages + (tile + 1) % 2 * 2 * keys * dim);
        warp.template wait_copies<1>();
      } else {
        warp.template wait_copies<0>();
      }
      warp.sync();
      if (tile == 0) {
        SLIMPACK_UNROLL
        for (int step = 0; step < dim / 16; ++step) {
          Product::template load_left<dim>(warp, q_tile, warp.warp() * 16, step, q[step]);
        }
      }
      const Bf16* k_tile = stages + tile % 2 * 2 * keys * dim;
      LanesOf<Warp, Sums<keys>> scores{};
      Product::template multiply_transposed<dim, keys>(
          warp, [&](int step) { return q[step]; }, k_tile, scores);
      // Of a tile that all rows of the warp see in full, nothing is masked.
      const int limit = queries.last_key(warp.warp() * 16) - tile * keys;  // of row 0
      if (limit < keys - 1) hide_later_keys<keys>(warp, limit, queries.step(), scores);
      rescale<dim>(warp, soften<keys>(warp, a.scale * log2_of_e, scores, softmax), sums);
      Product::template multiply<keys, dim>(
          warp, [&](int step) { return as_left<Warp, keys>(warp, scores, step); }, k_tile + keys * dim, sums);
      warp.sync();  // or the next tile but one would overwrite this one
    }
    write_output<dim>(warp, {out, lse, queries.first_row, head, warp.warp() * 16, queries.rows, a.scale},
                      softmax, sums);
  }
};

}  // namespace slimpack::kernels::cuda
