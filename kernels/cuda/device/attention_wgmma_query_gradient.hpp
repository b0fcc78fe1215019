#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_backward.hpp"
#include "kernels/cuda/device/attention_softmax.hpp"
#include "kernels/cuda/device/attention_tiles.hpp"
#include "kernels/cuda/device/group_product.hpp"
#include "kernels/cuda/device/wide_tile.hpp"
#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::cuda {

/// A block per item and head on Hopper: one warp brings tiles of keys and values, two groups of warps take 64
/// queries each. The next tile's scores are under way while the queries' gradients of this one are.
template <int dim>
struct AttentionWgmmaQueryGradientKernel {
  static constexpr int keys = dim == 64 ? 128 : 96, stages = 3;
  static constexpr int groups = block_groups, warps = groups * group_warps;
  using QueryTileShape = WideTile<group_attention_rows, dim>;
  using KeyTileShape = WideTile<keys, dim>;

  struct Barriers {
    Mbarrier queries;
    RingBarriers<stages> keys;
    int step;  ///< of the queries, here since registers are short
  };
  static constexpr std::size_t tiles_bytes = 2 * QueryTileShape::bytes + 2 * stages * KeyTileShape::bytes;
  static constexpr std::size_t shared = tiles_bytes + sizeof(Barriers);

  AttentionArguments a;
  AttentionSaved saved;
  AttentionBackwardMaps maps;
  const QueryItem* items = nullptr;
  MatrixView<Bf16> dq;  ///< [tokens x heads * dim]

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const Block block = this->block(warp);
    if (warp.warp() == 0) {
      warp.begin_barrier(block.barriers->queries, 1);
      warp.lanes([&](int lane) {
        if (lane == 0) block.barriers->step = block.queries.step();
      });
      begin_ring(warp, block.barriers->keys, block.consumers * group_warps);
      warp.show_barriers();
    }
    run_groups(
        warp, block.consumers, [&] { produce(warp, block); }, [&] { help(warp, block); },
        [&](int group) { consume(warp, block, group); });
  }

 private:
  /// What a block works on, and where in shared memory.
  struct Block {
    QueryTile queries;
    int head, tiles;
    int consumers;  ///< groups that have rows
    Bf16 *q, *dout, *k, *v;
    Barriers* barriers;
  };

  template <class Warp>
  [[nodiscard]] SLIMPACK_DEVICE Block block(Warp& warp) const {
    Block b;
    b.head = static_cast<int>(warp.block() % static_cast<std::size_t>(a.heads));
    b.queries = query_tile(a, items[warp.block() / static_cast<std::size_t>(a.heads)], group_attention_rows);
    b.tiles = (b.queries.seen + keys - 1) / keys;
    b.consumers = b.queries.rows > group_rows ? 2 : 1;
    auto* memory = static_cast<unsigned char*>(warp.shared());
    b.q = reinterpret_cast<Bf16*>(memory);
    b.dout = reinterpret_cast<Bf16*>(memory + QueryTileShape::bytes);
    memory += 2 * QueryTileShape::bytes;
    b.k = reinterpret_cast<Bf16*>(memory);
    b.v = reinterpret_cast<Bf16*>(memory + stages * KeyTileShape::bytes);
    b.barriers = reinterpret_cast<Barriers*>(memory + 2 * stages * KeyTileShape::bytes);
    return b;
  }

  [[nodiscard]] SLIMPACK_DEVICE TilePlace key_rows(const Block& b, int tile) const {
    return {static_cast<std::size_t>(b.queries.slice.key_begin) + static_cast<std::size_t>(tile) * keys,
            b.head / a.group() * dim, b.queries.seen - tile * keys};
  }

  /// The group's other warps bring the last keys and values, unless these fill a tile.
  template <class Warp>
  SLIMPACK_DEVICE void help(Warp& warp, const Block& b) const {
    const TilePlace rows = key_rows(b, b.tiles - 1);
    if (rows.valid >= keys) return;
    const int stage = ring_place<stages>(b.tiles - 1).stage;
    meet_for_tile(warp);
    bring_share<KeyTileShape>(warp, a.k, rows, stage_of<KeyTileShape>(b.k, stage));
    bring_share<KeyTileShape>(warp, a.v, rows, stage_of<KeyTileShape>(b.v, stage));
    meet_for_tile(warp);
  }

  template <class Warp>
  SLIMPACK_DEVICE void produce(Warp& warp, const Block& b) const {
    // Rows after the item's may be anything: each row's gradient is its own, and these are not written.
    const TilePlace queries{b.queries.first_row, b.head * dim, b.queries.rows};
    bring_tile<QueryTileShape>(warp, maps.q, queries, b.q, b.barriers->queries);
    bring_tile<QueryTileShape>(warp, maps.dout, queries, b.dout, b.barriers->queries);
    warp.arrive(b.barriers->queries);
    RingBarriers<stages>& ring = b.barriers->keys;
    for (int tile = 0; tile < b.tiles; ++tile) {
      const RingPlace at = ring_place<stages>(tile);
      const TilePlace rows = key_rows(b, tile);
      warp.wait(ring.empty[at.stage], at.parity ^ 1U);
      if (rows.valid >= keys) {
        bring_tile<KeyTileShape>(warp, maps.k, rows, stage_of<KeyTileShape>(b.k, at.stage),
                                 ring.full[at.stage]);
        bring_tile<KeyTileShape>(warp, maps.v, rows, stage_of<KeyTileShape>(b.v, at.stage),
                                 ring.full[at.stage]);
      } else {                // rows after the valid ones are hidden, but 0 times NaN is NaN
        meet_for_tile(warp);  // the others bring them
        meet_for_tile(warp);
      }
      warp.arrive(ring.full[at.stage]);
    }
  }

  /// Log-sum-exps in powers of two, and deltas, of a lane's rows.
  struct RowNumbers {
    TwoRows lse, delta;
  };

  template <class Warp>
  [[nodiscard]] SLIMPACK_DEVICE LanesOf<Warp, RowNumbers> numbers_of(Warp& warp, const Block& b,
                                                                     int row) const {
    LanesOf<Warp, RowNumbers> out;
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int r = row + place_in_sum(lane, half * 2).row;
        const std::size_t token = b.queries.first_row + static_cast<std::size_t>(r);
        const auto head = static_cast<std::size_t>(b.head);
        // A row that there is not has no probabilities.
        const bool is_there = r < b.queries.rows;
        out[lane].lse.at[half] = is_there ? row_of(saved.lse, head)[token] * log2_of_e : INFINITY;
        out[lane].delta.at[half] = is_there ? row_of(saved.delta, head)[token] : 0.0F;
      }
    });
    return out;
  }

  /// Scores become probabilities; gives the lane's sums of its rows. @param limit key that the warp's first
  /// row sees last
  template <class Warp>
  [[nodiscard]] SLIMPACK_DEVICE LanesOf<Warp, TwoRows> exponentiate(Warp& warp, const Block& b, int limit,
                                                                    const LanesOf<Warp, RowNumbers>& numbers,
                                                                    LanesOf<Warp, Sums<keys>>& scores) const {
    const float factor = a.scale * log2_of_e;
    if (limit < keys - 1) hide_later_keys<keys>(warp, limit, b.barriers->step, scores);
    LanesOf<Warp, TwoRows> total{};
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int n = 0; n < keys / 8; ++n) {
        SLIMPACK_UNROLL
        for (int i = 0; i < 4; ++i) {
          float& score = scores[lane].at[n][i];
          score = power_of_2(score * factor - numbers[lane].lse.at[i / 2]);
          total[lane].at[i / 2] += score;
        }
      }
    });
    return total;
  }

  /// The probabilities' gradients become those of the scores, 0 where a key is not seen.
  template <class Warp>
  SLIMPACK_DEVICE static void differentiate(Warp& warp, const LanesOf<Warp, RowNumbers>& numbers,
                                            const LanesOf<Warp, Sums<keys>>& p,
                                            LanesOf<Warp, Sums<keys>>& gradients) {
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int n = 0; n < keys / 8; ++n) {
        SLIMPACK_UNROLL
        for (int i = 0; i < 4; ++i) {
          float& gradient = gradients[lane].at[n][i];
          const float probability = p[lane].at[n][i];
          gradient = probability * (gradient - numbers[lane].delta.at[i / 2]);
        }
      }
    });
  }

  template <class Warp>
  SLIMPACK_DEVICE void consume(Warp& warp, const Block& b, int group) const {
    const int row = group * group_rows + warp.warp_of_group() * 16;
    RingBarriers<stages>& ring = b.barriers->keys;
    LanesOf<Warp, Sums<dim>> sums{};
    LanesOf<Warp, Fragment> ds[keys / 16];
    const auto place = [](int tile) { return ring_place<stages>(tile); };
    const LanesOf<Warp, RowNumbers> numbers = numbers_of(warp, b, row);
    const int last_key = b.queries.last_key(row);  // of the warp's first row

    const auto start = [&](const Bf16* left, Bf16* ring_of, int tile, LanesOf<Warp, Sums<keys>>& to) {
      GroupProduct::multiply_transposed<QueryTileShape, KeyTileShape>(
          warp, left, group * group_rows, stage_of<KeyTileShape>(ring_of, place(tile).stage), to);
      warp.commit_products();
    };
    const auto start_sums = [&](int tile) {
      GroupProduct::multiply<KeyTileShape, dim>(warp, ds, stage_of<KeyTileShape>(b.k, place(tile).stage),
                                                sums);
      warp.commit_products();
    };
    const auto differentiate_to_factors = [&](const LanesOf<Warp, Sums<keys>>& p,
                                              LanesOf<Warp, Sums<keys>>& gradients) {
      differentiate(warp, numbers, p, gradients);
      SLIMPACK_UNROLL
      for (int i = 0; i < keys / 16; ++i) ds[i] = as_left<Warp, keys>(warp, gradients, i);
    };

    warp.wait(b.barriers->queries, 0);
    warp.wait(ring.full[0], 0);
    {
      LanesOf<Warp, Sums<keys>> scores, gradients;
      warp.fence_products();
      start(b.q, b.k, 0, scores);
      start(b.dout, b.v, 0, gradients);
      warp.template wait_products<0>(scores, gradients);
      static_cast<void>(exponentiate(warp, b, last_key, numbers, scores));
      differentiate_to_factors(scores, gradients);
    }
    for (int tile = 1; tile < b.tiles; ++tile) {
      const RingPlace at = place(tile);
      LanesOf<Warp, Sums<keys>> scores, gradients;
      warp.wait(ring.full[at.stage], at.parity);
      warp.fence_products(sums, ds);
      start(b.q, b.k, tile, scores);
      start_sums(tile - 1);
      start(b.dout, b.v, tile, gradients);
      warp.template wait_products<2>(scores);
      warp.compute_now(exponentiate(warp, b, last_key - tile * keys, numbers, scores), -a.scale);
      warp.template wait_products<0>(sums, ds, gradients);
      warp.arrive(ring.empty[place(tile - 1).stage]);
      differentiate_to_factors(scores, gradients);
    }
    warp.fence_products(sums, ds);
    start_sums(b.tiles - 1);
    warp.template wait_products<0>(sums, ds);
    write(warp, b, row, sums);
  }

  template <class Warp>
  SLIMPACK_DEVICE void write(Warp& warp, const Block& b, int row,
                             const LanesOf<Warp, Sums<dim>>& sums) const {
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int half = 0; half < 2; ++half) {
        const Place at = place_in_sum(lane, half * 2);
        const int r = row + at.row;
        if (r >= b.queries.rows) continue;
        Bf16* to = row_of(dq, b.queries.first_row + static_cast<std::size_t>(r)) + b.head * dim + at.col;
        SLIMPACK_UNROLL
        for (int n = 0; n < dim / 8; ++n) {
          const float* from = sums[lane].at[n] + half * 2;
          store_pair(to + n * 8, from[0] * a.scale, from[1] * a.scale);
        }
      }
    });
  }
};

}  // namespace slimpack::kernels::cuda
