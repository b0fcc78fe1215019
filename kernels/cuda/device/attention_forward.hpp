#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/warp_product.hpp"
#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::cuda {

/// Base of the exponentials within attention: a GPU has 2^x, and log2(e) goes into the scale.
inline constexpr float log2_of_e = 1.44269504088896340736F;
inline constexpr float log_of_2 = 0.69314718055994530942F;

/// What the forward and the backward kernels work on.
struct AttentionArguments {
  MatrixView<const Bf16> q, k, v;  ///< [tokens x heads * dim], [cache rows x kv_heads * dim]
  const AttentionSlice* slices = nullptr;
  int heads = 0, kv_heads = 0;
  float scale = 0;  ///< 1 / sqrt(dim)

  [[nodiscard]] SLIMPACK_HOST_DEVICE int group() const { return heads / kv_heads; }
};

/// Row sums and the like of a lane: its rows are 8 apart.
struct TwoRows {
  float at[2];
};

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
    const AttentionSlice slice = a.slices[item.slice];
    const int rows = slice.tokens - item.first < attention_rows ? slice.tokens - item.first : attention_rows;
    const int seen = slice.prefix + item.first + rows;  // keys, by the last of the rows
    const int tiles = (seen + keys - 1) / keys;
    const std::size_t first_row =
        static_cast<std::size_t>(slice.query_begin) + static_cast<std::size_t>(item.first);

    auto* q_tile = static_cast<Bf16*>(warp.shared());
    Bf16* stages = q_tile + attention_rows * dim;  // of keys and values
    copy_tile<attention_rows, dim>(warp, row_of(a.q, first_row) + head * dim, a.q.stride, rows, q_tile);
    copy_keys(warp, slice, head, 0, seen, stages);

    LanesOf<Warp, Fragment> q[dim / 16];
    LanesOf<Warp, Sums<dim>> sums{};
    LanesOf<Warp, TwoRows> most, total{};
    warp.lanes([&](int lane) { most[lane] = {-INFINITY, -INFINITY}; });
    for (int tile = 0; tile < tiles; ++tile) {
      if (tile + 1 < tiles) {
        copy_keys(warp, slice, head, tile + 1, seen, stages + (tile + 1) % 2 * 2 * keys * dim);
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
      const int limit =
          slice.prefix + item.first + warp.warp() * 16 - tile * keys;  // key that row 0 sees last
      if (limit < keys - 1) mask(warp, limit, scores);
      soften(warp, scores, most, total, sums);
      Product::template multiply<keys, dim>(
          warp, [&](int step) { return as_left<Warp, keys>(warp, scores, step); }, k_tile + keys * dim, sums);
      warp.sync();  // or the next tile but one would overwrite this one
    }
    finish(warp, head, rows, first_row, most, total, sums);
  }

 private:
  template <class Warp>
  SLIMPACK_DEVICE void copy_keys(Warp& warp, const AttentionSlice& slice, int head, int tile, int seen,
                                 Bf16* stage) const {
    const std::size_t row = static_cast<std::size_t>(slice.key_begin) + static_cast<std::size_t>(tile) * keys;
    const int column = head / a.group() * dim;
    copy_tile<keys, dim>(warp, row_of(a.k, row) + column, a.k.stride, seen - tile * keys, stage);
    copy_tile<keys, dim>(warp, row_of(a.v, row) + column, a.v.stride, seen - tile * keys, stage + keys * dim);
    warp.commit_copies();
  }

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
        const float kept = exp2f((most[lane].at[row] - now[lane].at[row]) * factor);
        total[lane].at[row] *= kept;
        SLIMPACK_UNROLL
        for (int n = 0; n < dim / 8; ++n) {
          sums[lane].at[n][row * 2] *= kept;
          sums[lane].at[n][row * 2 + 1] *= kept;
        }
      }
      SLIMPACK_UNROLL
      for (int n = 0; n < keys / 8; ++n) {
        SLIMPACK_UNROLL
        for (int i = 0; i < 4; ++i) {
          float& score = scores[lane].at[n][i];
          score = exp2f((score - now[lane].at[i / 2]) * factor);
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
        const float sum = total[lane].at[half];
        if (at.col == 0) {
          row_of(lse, static_cast<std::size_t>(head))[token] = most[lane].at[half] * a.scale + logf(sum);
        }
        Bf16* to = row_of(out, token) + head * dim + at.col;
        SLIMPACK_UNROLL
        for (int n = 0; n < dim / 8; ++n) {
          const float* from = sums[lane].at[n] + half * 2;
          store_pair(to + n * 8, from[0] / sum, from[1] / sum);
        }
      }
    });
  }
};

}  // namespace slimpack::kernels::cuda
