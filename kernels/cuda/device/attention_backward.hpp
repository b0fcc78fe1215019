#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_forward.hpp"
#include "kernels/cuda/device/warp_product.hpp"
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
    const AttentionSlice slice = a.slices[item.slice];
    const int rows = slice.tokens - item.first < attention_rows ? slice.tokens - item.first : attention_rows;
    const int seen = slice.prefix + item.first + rows;
    const int tiles = (seen + keys - 1) / keys;
    const std::size_t first_row =
        static_cast<std::size_t>(slice.query_begin) + static_cast<std::size_t>(item.first);

    auto* q_tile = static_cast<Bf16*>(warp.shared());
    Bf16* dout_tile = q_tile + attention_rows * dim;
    Bf16* stages = dout_tile + attention_rows * dim;  // of keys and values
    copy_tile<attention_rows, dim>(warp, row_of(a.q, first_row) + head * dim, a.q.stride, rows, q_tile);
    copy_tile<attention_rows, dim>(warp, row_of(saved.dout, first_row) + head * dim, saved.dout.stride, rows,
                                   dout_tile);
    copy_keys(warp, slice, head, 0, seen, stages);

    LanesOf<Warp, TwoRows> lse, delta;
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int row = warp.warp() * 16 + place_in_sum(lane, half * 2).row;
        const std::size_t token = first_row + static_cast<std::size_t>(row);
        const auto h = static_cast<std::size_t>(head);
        // A row that there is not has no probabilities.
        lse[lane].at[half] = row < rows ? row_of(saved.lse, h)[token] * log2_of_e : INFINITY;
        delta[lane].at[half] = row < rows ? row_of(saved.delta, h)[token] : 0.0F;
      }
    });
    LanesOf<Warp, Sums<dim>> sums{};
    for (int tile = 0; tile < tiles; ++tile) {
      if (tile + 1 < tiles) {
        copy_keys(warp, slice, head, tile + 1, seen, stages + (tile + 1) % 2 * 2 * keys * dim);
        warp.template wait_copies<1>();
      } else {
        warp.template wait_copies<0>();
      }
      warp.sync();
      const Bf16* k_tile = stages + tile % 2 * 2 * keys * dim;
      LanesOf<Warp, Sums<keys>> scores{}, gradients{};
      multiply_rows(warp, q_tile, k_tile, scores);
      multiply_rows(warp, dout_tile, k_tile + keys * dim, gradients);
      const int limit =
          slice.prefix + item.first + warp.warp() * 16 - tile * keys;  // key that row 0 sees last
      differentiate(warp, limit, lse, delta, scores, gradients);
      Product::template multiply<keys, dim>(
          warp, [&](int step) { return as_left<Warp, keys>(warp, gradients, step); }, k_tile, sums);
      warp.sync();
    }
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int half = 0; half < 2; ++half) {
        const Place at = place_in_sum(lane, half * 2);
        const int row = warp.warp() * 16 + at.row;
        if (row >= rows) continue;
        Bf16* to = row_of(dq, first_row + static_cast<std::size_t>(row)) + head * dim + at.col;
        SLIMPACK_UNROLL
        for (int n = 0; n < dim / 8; ++n) {
          const float* from = sums[lane].at[n] + half * 2;
          store_pair(to + n * 8, from[0] * a.scale, from[1] * a.scale);
        }
      }
    });
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

  template <class Warp>
  SLIMPACK_DEVICE static void multiply_rows(Warp& warp, const Bf16* rows, const Bf16* tile,
                                            LanesOf<Warp, Sums<keys>>& sums) {
    Product::template multiply_transposed<dim, keys>(
        warp,
        [&](int step) {
          LanesOf<Warp, Fragment> left;
          Product::template load_left<dim>(warp, rows, warp.warp() * 16, step, left);
          return left;
        },
        tile, sums);
  }

  /// Gradients of the probabilities become those of the scores.
  template <class Warp>
  SLIMPACK_DEVICE void differentiate(Warp& warp, int limit, const LanesOf<Warp, TwoRows>& lse,
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
          const bool is_seen = n * 8 + at.col <= limit + at.row;
          const float p = is_seen ? exp2f(scores[lane].at[n][i] * factor - lse[lane].at[i / 2]) : 0.0F;
          gradients[lane].at[n][i] = p * (gradients[lane].at[n][i] - delta[lane].at[i / 2]);
        }
      }
    });
  }
};

/// A block per item and key/value head: 16 keys a warp, against the queries that see them, of all heads of the
/// group and all slices of the sample, tile by tile. Adds to the gradients.
template <int dim, class Product = MmaSyncProduct>
struct AttentionKeyGradientKernel {
  static constexpr int queries = 32;  ///< of a tile
  static constexpr int warps = attention_rows / 16;
  static constexpr std::size_t tiles_bytes = sizeof(Bf16) * dim * (2 * attention_rows + 4 * queries);
  static constexpr std::size_t shared = tiles_bytes + sizeof(float) * 4 * queries;

  AttentionArguments a;
  AttentionSaved saved;
  const KeyItem* items = nullptr;
  MatrixView<float> dk, dv;  ///< [cache rows x kv_heads * dim]

  /// A tile of queries among those that the block meets.
  struct Cursor {
    int slice, head, first;
  };

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const auto kv_head = static_cast<int>(warp.block() % static_cast<std::size_t>(a.kv_heads));
    const KeyItem item = items[warp.block() / static_cast<std::size_t>(a.kv_heads)];
    const int rows = tokens_of_sample(item) - item.first;  // may be more than the block's
    const std::size_t first_row =
        static_cast<std::size_t>(a.slices[item.slice].key_begin) + static_cast<std::size_t>(item.first);

    auto* k_tile = static_cast<Bf16*>(warp.shared());
    Bf16* v_tile = k_tile + attention_rows * dim;
    Bf16* stages = v_tile + attention_rows * dim;  // of queries and the output's gradients
    auto* numbers = reinterpret_cast<float*>(static_cast<unsigned char*>(warp.shared()) + tiles_bytes);
    copy_tile<attention_rows, dim>(warp, row_of(a.k, first_row) + kv_head * dim, a.k.stride, rows, k_tile);
    copy_tile<attention_rows, dim>(warp, row_of(a.v, first_row) + kv_head * dim, a.v.stride, rows, v_tile);

    LanesOf<Warp, Sums<dim>> dk_sums{}, dv_sums{};
    Cursor now{item.slice - 1, 0, 0};
    bool is_more = next_slice(item, kv_head, now);
    if (is_more) copy_queries(warp, now, stages, numbers);
    for (int stage = 0; is_more; stage = 1 - stage) {
      Cursor after = now;
      is_more = advance(item, kv_head, after);
      if (is_more) {
        copy_queries(warp, after, stages + (1 - stage) * 2 * queries * dim,
                     numbers + (1 - stage) * 2 * queries);
        warp.template wait_copies<1>();
      } else {
        warp.template wait_copies<0>();
      }
      warp.sync();
      const Bf16* q_tile = stages + stage * 2 * queries * dim;
      const Bf16* dout_tile = q_tile + queries * dim;
      LanesOf<Warp, Sums<queries>> scores{}, gradients{};
      multiply_rows(warp, k_tile, q_tile, scores);
      multiply_rows(warp, v_tile, dout_tile, gradients);
      // Place of the warp's key 0 among the tile's queries: those before do not see it.
      const int limit = item.first + warp.warp() * 16 - a.slices[now.slice].prefix - now.first;
      differentiate(warp, limit, numbers + stage * 2 * queries, scores, gradients);
      Product::template multiply<queries, dim>(
          warp, [&](int step) { return as_left<Warp, queries>(warp, scores, step); }, dout_tile, dv_sums);
      Product::template multiply<queries, dim>(
          warp, [&](int step) { return as_left<Warp, queries>(warp, gradients, step); }, q_tile, dk_sums);
      warp.sync();
      now = after;
    }
    add(warp, dk, first_row, rows, kv_head, a.scale, dk_sums);
    add(warp, dv, first_row, rows, kv_head, 1.0F, dv_sums);
  }

 private:
  /// Tokens of a sample up to the end of its last slice.
  [[nodiscard]] SLIMPACK_DEVICE int tokens_of_sample(const KeyItem& item) const {
    int tokens = 0;
    for (int i = item.slice; i < item.end; ++i) {
      const int end = a.slices[i].prefix + a.slices[i].tokens;
      tokens = end > tokens ? end : tokens;
    }
    return tokens;
  }

  /// The first tile of the next slice that sees the block's keys.
  SLIMPACK_DEVICE bool next_slice(const KeyItem& item, int kv_head, Cursor& at) const {
    while (++at.slice < item.end) {
      const AttentionSlice& slice = a.slices[at.slice];
      if (slice.prefix + slice.tokens <= item.first) continue;
      at.head = kv_head * a.group();
      at.first = first_query(slice, item);
      return true;
    }
    return false;
  }

  [[nodiscard]] SLIMPACK_DEVICE static int first_query(const AttentionSlice& slice, const KeyItem& item) {
    return item.first > slice.prefix ? item.first - slice.prefix : 0;
  }

  /// The next tile: of the slice's head, of its next head, of the next slice.
  SLIMPACK_DEVICE bool advance(const KeyItem& item, int kv_head, Cursor& at) const {
    at.first += queries;
    if (at.first < a.slices[at.slice].tokens) return true;
    at.first = first_query(a.slices[at.slice], item);
    if (++at.head < (kv_head + 1) * a.group()) return true;
    return next_slice(item, kv_head, at);
  }

  /// Starts to copy a tile of queries; their log-sum-exps and deltas come at once, and are there after a
  /// barrier.
  template <class Warp>
  SLIMPACK_DEVICE void copy_queries(Warp& warp, const Cursor& at, Bf16* stage, float* numbers) const {
    const AttentionSlice& slice = a.slices[at.slice];
    const std::size_t row = static_cast<std::size_t>(slice.query_begin) + static_cast<std::size_t>(at.first);
    const int rows = slice.tokens - at.first, column = at.head * dim;
    copy_tile<queries, dim>(warp, row_of(a.q, row) + column, a.q.stride, rows, stage);
    copy_tile<queries, dim>(warp, row_of(saved.dout, row) + column, saved.dout.stride, rows,
                            stage + queries * dim);
    warp.commit_copies();
    if (warp.warp() != 0) return;
    static_assert(queries == warp_lanes, "each lane copies the numbers of one query");
    warp.lanes([&](int lane) {
      const auto head = static_cast<std::size_t>(at.head);
      const std::size_t token = row + static_cast<std::size_t>(lane);
      // A query that there is not has no probabilities.
      numbers[lane] = lane < rows ? row_of(saved.lse, head)[token] * log2_of_e : INFINITY;
      numbers[queries + lane] = lane < rows ? row_of(saved.delta, head)[token] : 0.0F;
    });
  }

  template <class Warp>
  SLIMPACK_DEVICE static void multiply_rows(Warp& warp, const Bf16* rows, const Bf16* tile,
                                            LanesOf<Warp, Sums<queries>>& sums) {
    Product::template multiply_transposed<dim, queries>(
        warp,
        [&](int step) {
          LanesOf<Warp, Fragment> left;
          Product::template load_left<dim>(warp, rows, warp.warp() * 16, step, left);
          return left;
        },
        tile, sums);
  }

  /// Scores become probabilities, and the gradients of those become the gradients of the scores.
  template <class Warp>
  SLIMPACK_DEVICE void differentiate(Warp& warp, int limit, const float* numbers,
                                     LanesOf<Warp, Sums<queries>>& scores,
                                     LanesOf<Warp, Sums<queries>>& gradients) const {
    const float factor = a.scale * log2_of_e;
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int n = 0; n < queries / 8; ++n) {
        SLIMPACK_UNROLL
        for (int i = 0; i < 4; ++i) {
          const Place at = place_in_sum(lane, i);
          const int query = n * 8 + at.col;
          const bool is_seen = query >= limit + at.row;
          const float p = is_seen ? exp2f(scores[lane].at[n][i] * factor - numbers[query]) : 0.0F;
          scores[lane].at[n][i] = p;
          gradients[lane].at[n][i] = p * (gradients[lane].at[n][i] - numbers[queries + query]);
        }
      }
    });
  }

  template <class Warp>
  SLIMPACK_DEVICE static void add(Warp& warp, const MatrixView<float>& to, std::size_t first_row, int rows,
                                  int kv_head, float scale, const LanesOf<Warp, Sums<dim>>& sums) {
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int half = 0; half < 2; ++half) {
        const Place at = place_in_sum(lane, half * 2);
        const int row = warp.warp() * 16 + at.row;
        if (row >= rows) continue;
        float* out = row_of(to, first_row + static_cast<std::size_t>(row)) + kv_head * dim + at.col;
        SLIMPACK_UNROLL
        for (int n = 0; n < dim / 8; ++n) {
          out[n * 8] += sums[lane].at[n][half * 2] * scale;
          out[n * 8 + 1] += sums[lane].at[n][half * 2 + 1] * scale;
        }
      }
    });
  }
};

}  // namespace slimpack::kernels::cuda
