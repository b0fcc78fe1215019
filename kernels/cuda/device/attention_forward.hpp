#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_work.hpp"
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
    const QueryTile queries = query_tile(a, item);
    const int tiles = (queries.seen + keys - 1) / keys;

    auto* q_tile = static_cast<Bf16*>(warp.shared());
    Bf16* stages = q_tile + attention_rows * dim;  // of keys and values
    copy_tile<attention_rows, dim>(warp, row_of(a.q, queries.first_row) + head * dim, a.q.stride,
                                   queries.rows, q_tile);
    copy_keys<keys, dim>(warp, a, queries, head, 0, stages);

    LanesOf<Warp, Fragment> q[dim / 16];
    LanesOf<Warp, Sums<dim>> sums{};
    LanesOf<Warp, TwoRows> most, total{};
    warp.lanes([&](int lane) { most[lane] = {-INFINITY, -INFINITY}; });
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
      const int limit = queries.place + warp.warp() * 16 - tile * keys;  // key that row 0 sees last
      if (limit < keys - 1) mask(warp, limit, scores);
      soften(warp, scores, most, total, sums);
      Product::template multiply<keys, dim>(
          warp, [&](int step) { return as_left<Warp, keys>(warp, scores, step); }, k_tile + keys * dim, sums);
      warp.sync();  // or the next tile but one would overwrite this one
    }
    finish(warp, head, queries.rows, queries.first_row, most, total, sums);
  }

 private:
  /// Hides the keys behind each row: row r sees those up to limit + r.
  template <class Warp>
  SLIMPACK_DEVICE static void mask(Warp& warp, int limit, LanesOf<Warp, Sums<keys>>& scores) {
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int n = 0; n < keys / 8; ++n) {
        SLIMPACK_UNROLL
        for (int i = 0; i < 4; ++i) {
          const Place at = place_in_sum(lane, i);
          if (n * 8 + at.col > limit + at.row) scores[lane].at[n][i] = -INFINITY;
        }
      }
    });
  }

  /// Scores become exp(score - maximum); what was gathered so far is brought to the new maximum.
  template <class Warp>
  SLIMPACK_DEVICE void soften(Warp& warp, LanesOf<Warp, Sums<keys>>& scores, LanesOf<Warp, TwoRows>& most,
                              LanesOf<Warp, TwoRows>& total, LanesOf<Warp, Sums<dim>>& sums) const {
    LanesOf<Warp, TwoRows> now = most;
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int n = 0; n < keys / 8; ++n) {
        SLIMPACK_UNROLL
        for (int i = 0; i < 4; ++i) now[lane].at[i / 2] = fmaxf(now[lane].at[i / 2], scores[lane].at[n][i]);
      }
    });
    // The four lanes of a row; each row sees key 0, so its maximum is a number from the first tile on.
    combine_lanes<Warp, TwoRows>(warp, now, 2, [](const TwoRows& x, const TwoRows& y) {
      return TwoRows{fmaxf(x.at[0], y.at[0]), fmaxf(x.at[1], y.at[1])};
    });
    const float factor = a.scale * log2_of_e;
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int row = 0; row < 2; ++row) {
        const float kept = power_of_2((most[lane].at[row] - now[lane].at[row]) * factor);
        total[lane].at[row] *= kept;
        SLIMPACK_UNROLL
        for (int n = 0; n < dim / 8; ++n) {
          sums[lane].at[n][row * 2] *= kept;
          sums[lane].at[n][row * 2 + 1] *= kept;
        }
      }
      const float shift[2] = {now[lane].at[0] * factor, now[lane].at[1] * factor};
      SLIMPACK_UNROLL
      for (int n = 0; n < keys / 8; ++n) {
        SLIMPACK_UNROLL
        for (int i = 0; i < 4; ++i) {
          float& score = scores[lane].at[n][i];
          score = power_of_2(score * factor - shift[i / 2]);
          total[lane].at[i / 2] += score;
        }
      }
    });
    most = now;
  }

  template <class Warp>
  SLIMPACK_DEVICE void finish(Warp& warp, int head, int rows, std::size_t first_row,
                              const LanesOf<Warp, TwoRows>& most, LanesOf<Warp, TwoRows>& total,
                              const LanesOf<Warp, Sums<dim>>& sums) const {
    combine_lanes<Warp, TwoRows>(warp, total, 2, [](const TwoRows& x, const TwoRows& y) {
      return TwoRows{x.at[0] + y.at[0], x.at[1] + y.at[1]};
    });
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int half = 0; half < 2; ++half) {
        const Place at = place_in_sum(lane, half * 2);
        const int row = warp.warp() * 16 + at.row;
        if (row >= rows) continue;
        const std::size_t token = first_row + static_cast<std::size_t>(row);
        const float sum = total[lane].at[half], inverse = 1.0F / sum;
        if (at.col == 0) {
          row_of(lse, static_cast<std::size_t>(head))[token] = most[lane].at[half] * a.scale + logf(sum);
        }
        Bf16* to = row_of(out, token) + head * dim + at.col;
        SLIMPACK_UNROLL
        for (int n = 0; n < dim / 8; ++n) {
          const float* from = sums[lane].at[n] + half * 2;
          store_pair(to + n * 8, from[0] * inverse, from[1] * inverse);
        }
      }
    });
  }
};

}  // namespace slimpack::kernels::cuda
