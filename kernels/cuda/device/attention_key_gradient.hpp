#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_backward.hpp"
#include "kernels/cuda/device/attention_key_queries.hpp"
#include "kernels/cuda/device/attention_tiles.hpp"
#include "kernels/cuda/device/warp_product.hpp"
#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::cuda {

/// A block per item and key/value head: 16 keys a warp, against the queries that see them, of all heads of the
/// group and all slices of the sample, tile by tile. Adds to the gradients.
template <int dim, class Product = MmaSyncProduct>
struct AttentionKeyGradientKernel {
  static constexpr int queries = 32;  ///< of a tile
  static constexpr int warps = attention_rows / 16;
  static constexpr std::size_t tiles_bytes = sizeof(Bf16) * dim * (2 * attention_rows + 4 * queries);

  /// Of a tile's queries: log-sum-exps in powers of two, and deltas.
  struct Numbers {
    float lse[queries], delta[queries];
    typename KeyQueries<queries>::Sight sight;  ///< of the block's first key
  };
  static constexpr std::size_t shared = tiles_bytes + 2 * sizeof(Numbers);

  AttentionArguments a;
  AttentionSaved saved;
  const KeyItem* items = nullptr;
  MatrixView<float> dk, dv;  ///< [rows of gradients x kv_heads * dim]

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const auto kv_head = static_cast<int>(warp.block() % static_cast<std::size_t>(a.kv_heads));
    const KeyItem item = items[warp.block() / static_cast<std::size_t>(a.kv_heads)];
    const Queries tiles{a, item, kv_head};
    const int rows = tiles.keys_of_sample() - item.first;  // may be more than the block's
    const std::size_t first_row =
        static_cast<std::size_t>(a.slices[item.slice].key_begin) + static_cast<std::size_t>(item.first);

    auto* k_tile = static_cast<Bf16*>(warp.shared());
    Bf16* v_tile = k_tile + attention_rows * dim;
    Bf16* stages = v_tile + attention_rows * dim;  // of queries and the output's gradients
    auto* numbers = reinterpret_cast<Numbers*>(static_cast<unsigned char*>(warp.shared()) + tiles_bytes);
    copy_tile<attention_rows, dim>(warp, row_of(a.k, first_row) + kv_head * dim, a.k.stride, rows, k_tile);
    copy_tile<attention_rows, dim>(warp, row_of(a.v, first_row) + kv_head * dim, a.v.stride, rows, v_tile);

    LanesOf<Warp, Sums<dim>> dk_sums{}, dv_sums{};
    Cursor now;
    bool is_more = tiles.begin(now);
    if (is_more) copy_queries(warp, tiles, now, stages, *numbers);
    for (int stage = 0; is_more; stage = 1 - stage) {
      Cursor after = now;
      is_more = tiles.advance(after);
      if (is_more) {
        copy_queries(warp, tiles, after, stages + (1 - stage) * 2 * queries * dim, numbers[1 - stage]);
        warp.template wait_copies<1>();
      } else {
        warp.template wait_copies<0>();
      }
      warp.sync();
      const Bf16* q_tile = stages + stage * 2 * queries * dim;
      const Bf16* dout_tile = q_tile + queries * dim;
      LanesOf<Warp, Sums<queries>> scores{}, gradients{};
      multiply_rows<Product, dim, queries>(warp, k_tile, q_tile, scores);
      multiply_rows<Product, dim, queries>(warp, v_tile, dout_tile, gradients);
      differentiate(warp, numbers[stage], scores, gradients);
      Product::template multiply<queries, dim>(
          warp, [&](int step) { return as_left<Warp, queries>(warp, scores, step); }, dout_tile, dv_sums);
      Product::template multiply<queries, dim>(
          warp, [&](int step) { return as_left<Warp, queries>(warp, gradients, step); }, q_tile, dk_sums);
      warp.sync();
      now = after;
    }
    const int row = warp.warp() * 16;
    const auto gradients = static_cast<std::size_t>(item.gradients);
    add_rows<dim>(warp, dk, gradients, row, rows, kv_head * dim, a.scale, dk_sums);
    add_rows<dim>(warp, dv, gradients, row, rows, kv_head * dim, 1.0F, dv_sums);
  }

 private:
  using Queries = KeyQueries<queries>;
  using Cursor = typename Queries::Cursor;

  /// Starts to copy a tile of queries; their log-sum-exps and deltas come at once, and are there after a
  /// barrier.
  template <class Warp>
  SLIMPACK_DEVICE void copy_queries(Warp& warp, const Queries& tiles, const Cursor& at, Bf16* stage,
                                    Numbers& numbers) const {
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
      numbers.lse[lane] = lane < rows ? row_of(saved.lse, head)[token] * log2_of_e : INFINITY;
      numbers.delta[lane] = lane < rows ? row_of(saved.delta, head)[token] : 0.0F;
      if (lane == 0) numbers.sight = tiles.sight(at);
    });
  }

  /// Scores become probabilities, and the gradients of those become the gradients of the scores.
  template <class Warp>
  SLIMPACK_DEVICE void differentiate(Warp& warp, const Numbers& numbers, LanesOf<Warp, Sums<queries>>& scores,
                                     LanesOf<Warp, Sums<queries>>& gradients) const {
    const float factor = a.scale * log2_of_e;
    const int first_key = numbers.sight.first + warp.warp() * 16;
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int n = 0; n < queries / 8; ++n) {
        SLIMPACK_UNROLL
        for (int i = 0; i < 4; ++i) {
          const Place at = place_in_sum(lane, i);
          const int query = n * 8 + at.col;
          const bool is_seen = query >= (first_key + at.row) * numbers.sight.factor;
          const float p = is_seen ? power_of_2(scores[lane].at[n][i] * factor - numbers.lse[query]) : 0.0F;
          scores[lane].at[n][i] = p;
          gradients[lane].at[n][i] = p * (gradients[lane].at[n][i] - numbers.delta[query]);
        }
      }
    });
  }
};

}  // namespace slimpack::kernels::cuda
