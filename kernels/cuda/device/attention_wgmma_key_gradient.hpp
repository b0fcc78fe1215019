#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_backward.hpp"
#include "kernels/cuda/device/attention_key_queries.hpp"
#include "kernels/cuda/device/attention_tiles.hpp"
#include "kernels/cuda/device/group_product.hpp"
#include "kernels/cuda/device/wide_tile.hpp"
#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::cuda {

/// A block per item and key/value head on Hopper: one warp brings tiles of queries and the output's
/// gradients, two groups of warps take 64 keys each. Scores are computed transposed, K Q^T, so that
/// probabilities and the scores' gradients are left factors as they come, and nothing is written to shared
/// memory. The next tile's scores are under way while the keys' gradients of this one are. Adds to the
/// gradients.
template <int dim>
struct AttentionWgmmaKeyGradientKernel {
  static constexpr int queries = 64, stages = 4;
  static constexpr int groups = block_groups, warps = groups * group_warps;
  using KeyTileShape = WideTile<group_attention_rows, dim>;
  using QueryTileShape = WideTile<queries, dim>;

  /// Of a stage's queries: log-sum-exps in powers of two, and deltas.
  struct alignas(16) Numbers {
    float lse[queries], delta[queries];
    typename KeyQueries<queries>::Sight sight;  ///< of the block's first key
    bool is_last;
  };
  /// A tile that the group's other warps bring; after the last one, none.
  struct SharedTile {
    TilePlace rows;
    int stage;  ///< none: negative
  };
  struct Barriers {
    Mbarrier keys;
    RingBarriers<stages> queries;
    SharedTile shared;
  };
  static constexpr std::size_t tiles_bytes = 2 * KeyTileShape::bytes + 2 * stages * QueryTileShape::bytes;
  static constexpr std::size_t shared = tiles_bytes + stages * sizeof(Numbers) + sizeof(Barriers);

  AttentionArguments a;
  AttentionSaved saved;
  AttentionBackwardMaps maps;
  const KeyItem* items = nullptr;
  MatrixView<float> dk, dv;  ///< [rows of gradients x kv_heads * dim]

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const Block block = this->block(warp);
    if (warp.warp() == 0) {
      warp.begin_barrier(block.barriers->keys, 1);
      begin_ring(warp, block.barriers->queries, block.consumers * group_warps);
      warp.show_barriers();
    }
    run_groups(
        warp, block.consumers, [&] { produce(warp, block); }, [&] { help(warp, block); },
        [&](int group) { consume(warp, block, group); });
  }

 private:
  using Queries = KeyQueries<queries>;
  using Cursor = typename Queries::Cursor;

  /// What a block works on, and where in shared memory.
  struct Block {
    Queries tiles;
    std::size_t first_row;  ///< of the cache
    int rows, column;
    int consumers;  ///< groups that have rows
    Bf16 *k, *v, *q, *dout;
    Numbers* numbers;
    Barriers* barriers;
  };

  template <class Warp>
  [[nodiscard]] SLIMPACK_DEVICE Block block(Warp& warp) const {
    const auto kv_head = static_cast<int>(warp.block() % static_cast<std::size_t>(a.kv_heads));
    const KeyItem item = items[warp.block() / static_cast<std::size_t>(a.kv_heads)];
    const Queries tiles{a, item, kv_head};
    const int rows = tiles.keys_of_sample() - item.first;
    auto* memory = static_cast<unsigned char*>(warp.shared());
    auto* q = memory + 2 * KeyTileShape::bytes;
    return {tiles,
            static_cast<std::size_t>(a.slices[item.slice].key_begin) + static_cast<std::size_t>(item.first),
            rows,
            kv_head * dim,
            rows > group_rows ? 2 : 1,
            reinterpret_cast<Bf16*>(memory),
            reinterpret_cast<Bf16*>(memory + KeyTileShape::bytes),
            reinterpret_cast<Bf16*>(q),
            reinterpret_cast<Bf16*>(q + stages * QueryTileShape::bytes),
            reinterpret_cast<Numbers*>(memory + tiles_bytes),
            reinterpret_cast<Barriers*>(memory + tiles_bytes + stages * sizeof(Numbers))};
  }

  /// The group's first warp says which tile comes next that the others bring. @param stage negative: none
  template <class Warp>
  SLIMPACK_DEVICE void call_for_tile(Warp& warp, const Block& b, const TilePlace& rows, int stage) const {
    warp.lanes([&](int lane) {
      if (lane == 0) b.barriers->shared = {rows, stage};
    });
    meet_for_tile(warp);
  }

  /// The group's other warps bring queries and output gradients that do not fill a tile.
  template <class Warp>
  SLIMPACK_DEVICE void help(Warp& warp, const Block& b) const {
    for (;;) {
      meet_for_tile(warp);
      const SharedTile& tile = b.barriers->shared;
      if (tile.stage < 0) return;
      bring_share<QueryTileShape>(warp, a.q, tile.rows, stage_of<QueryTileShape>(b.q, tile.stage));
      bring_share<QueryTileShape>(warp, saved.dout, tile.rows, stage_of<QueryTileShape>(b.dout, tile.stage));
      meet_for_tile(warp);
    }
  }

  template <class Warp>
  SLIMPACK_DEVICE void produce(Warp& warp, const Block& b) const {
    // Rows after the sample's may be anything: each row's gradient is its own, and these are not written.
    bring_tile<KeyTileShape>(warp, maps.k, {b.first_row, b.column, b.rows}, b.k, b.barriers->keys);
    bring_tile<KeyTileShape>(warp, maps.v, {b.first_row, b.column, b.rows}, b.v, b.barriers->keys);
    warp.arrive(b.barriers->keys);
    RingBarriers<stages>& ring = b.barriers->queries;
    Cursor at;
    bool is_more = b.tiles.begin(at);  // a sample's last slice sees all its keys, so there is one
    for (int step = 0; is_more; ++step) {
      const RingPlace place = ring_place<stages>(step);
      Mbarrier& full = ring.full[place.stage];
      warp.wait(ring.empty[place.stage], place.parity ^ 1U);
      bring_queries(warp, b, at, place.stage);
      is_more = b.tiles.advance(at);
      warp.lanes([&](int lane) {
        if (lane == 0) b.numbers[place.stage].is_last = !is_more;
      });
      warp.arrive(full);
    }
    call_for_tile(warp, b, {}, -1);
  }

  /// Starts to bring a tile of queries and the output's gradients, and brings what goes with them.
  template <class Warp>
  SLIMPACK_DEVICE void bring_queries(Warp& warp, const Block& b, const Cursor& at, int stage) const {
    const AttentionSlice& slice = a.slices[at.slice];
    const TilePlace rows{static_cast<std::size_t>(slice.query_begin) + static_cast<std::size_t>(at.first),
                         at.head * dim, slice.tokens - at.first};
    Mbarrier& full = b.barriers->queries.full[stage];
    if (rows.valid >= queries) {
      bring_tile<QueryTileShape>(warp, maps.q, rows, stage_of<QueryTileShape>(b.q, stage), full);
      bring_tile<QueryTileShape>(warp, maps.dout, rows, stage_of<QueryTileShape>(b.dout, stage), full);
    } else {
      call_for_tile(warp, b, rows, stage);
      meet_for_tile(warp);
    }
    Numbers& to = b.numbers[stage];
    const auto head = static_cast<std::size_t>(at.head);
    const typename Queries::Sight sight = b.tiles.sight(at);
    warp.lanes([&](int lane) {
      SLIMPACK_NO_UNROLL
      for (int i = lane; i < queries; i += warp_lanes) {
        const std::size_t token = rows.row + static_cast<std::size_t>(i);
        // A query that there is not has no probabilities.
        to.lse[i] = i < rows.valid ? row_of(saved.lse, head)[token] * log2_of_e : INFINITY;
        to.delta[i] = i < rows.valid ? row_of(saved.delta, head)[token] : 0.0F;
      }
      if (lane == 0) to.sight = sight;
    });
  }

  /// Scores become probabilities. @param row the warp's first key
  template <class Warp>
  SLIMPACK_DEVICE void exponentiate(Warp& warp, int row, const Numbers& numbers,
                                    LanesOf<Warp, Sums<queries>>& scores) const {
    const float factor = a.scale * log2_of_e;
    const int limit = numbers.sight.first + row, factor_of_key = numbers.sight.factor;
    if (limit + 15 > 0) {  // or all of the tile's queries see all of the warp's keys
      warp.lanes([&](int lane) {
        SLIMPACK_UNROLL
        for (int n = 0; n < queries / 8; ++n) {
          SLIMPACK_UNROLL
          for (int i = 0; i < 4; ++i) {
            const Place at = place_in_sum(lane, i);
            if (n * 8 + at.col < (limit + at.row) * factor_of_key) scores[lane].at[n][i] = -INFINITY;
          }
        }
      });
    }
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int n = 0; n < queries / 8; ++n) {
        SLIMPACK_UNROLL
        for (int i = 0; i < 4; ++i) {
          float& score = scores[lane].at[n][i];
          score = power_of_2(score * factor - numbers.lse[n * 8 + place_in_sum(lane, i).col]);
        }
      }
    });
  }

  /// The probabilities' gradients become those of the scores.
  template <class Warp>
  SLIMPACK_DEVICE static void differentiate(Warp& warp, const Numbers& numbers,
                                            const LanesOf<Warp, Fragment> (&p)[queries / 16],
                                            LanesOf<Warp, Sums<queries>>& gradients) {
    warp.lanes([&](int lane) {
      SLIMPACK_UNROLL
      for (int n = 0; n < queries / 8; ++n) {
        SLIMPACK_UNROLL
        for (int i = 0; i < 4; ++i) {
          float& gradient = gradients[lane].at[n][i];
          gradient = pair_element(p[n / 2][lane].at[n % 2 * 2 + i / 2], i % 2) *
                     (gradient - numbers.delta[n * 8 + place_in_sum(lane, i).col]);
        }
      }
    });
  }

  template <class Warp>
  SLIMPACK_DEVICE static void as_factors(Warp& warp, const LanesOf<Warp, Sums<queries>>& sums,
                                         LanesOf<Warp, Fragment> (&factors)[queries / 16]) {
    SLIMPACK_UNROLL
    for (int i = 0; i < queries / 16; ++i) factors[i] = as_left<Warp, queries>(warp, sums, i);
  }

  template <class Warp>
  SLIMPACK_DEVICE void consume(Warp& warp, const Block& b, int group) const {
    const int row = group * group_rows + warp.warp_of_group() * 16;
    RingBarriers<stages>& ring = b.barriers->queries;
    LanesOf<Warp, Sums<dim>> dk_sums{}, dv_sums{};
    LanesOf<Warp, Fragment> p[queries / 16], ds[queries / 16];

    const auto place = [](int step) { return ring_place<stages>(step); };
    const auto start_scores = [&](int step, LanesOf<Warp, Sums<queries>>& scores) {
      GroupProduct::multiply_transposed<KeyTileShape, QueryTileShape>(
          warp, b.k, group * group_rows, stage_of<QueryTileShape>(b.q, place(step).stage), scores);
      warp.commit_products();
    };
    const auto start_gradients = [&](int step, LanesOf<Warp, Sums<queries>>& gradients) {
      GroupProduct::multiply_transposed<KeyTileShape, QueryTileShape>(
          warp, b.v, group * group_rows, stage_of<QueryTileShape>(b.dout, place(step).stage), gradients);
      warp.commit_products();
    };
    const auto start_dv = [&](int step) {
      GroupProduct::multiply<QueryTileShape, dim>(
          warp, p, stage_of<QueryTileShape>(b.dout, place(step).stage), dv_sums);
      warp.commit_products();
    };
    const auto start_dk = [&](int step) {
      GroupProduct::multiply<QueryTileShape, dim>(warp, ds, stage_of<QueryTileShape>(b.q, place(step).stage),
                                                  dk_sums);
      warp.commit_products();
    };

    warp.wait(b.barriers->keys, 0);
    warp.wait(ring.full[0], 0);
    {
      LanesOf<Warp, Sums<queries>> scores, gradients;
      warp.fence_products();
      start_scores(0, scores);
      start_gradients(0, gradients);
      warp.template wait_products<0>(scores, gradients);
      exponentiate(warp, row, b.numbers[0], scores);
      as_factors(warp, scores, p);
      warp.fence_products(dv_sums, p);
      start_dv(0);
      differentiate(warp, b.numbers[0], p, gradients);
      as_factors(warp, gradients, ds);
    }
    int step = 1;
    for (bool is_last = b.numbers[0].is_last; !is_last; ++step) {
      const RingPlace at = place(step);
      const Numbers& numbers = b.numbers[at.stage];
      LanesOf<Warp, Sums<queries>> scores, gradients;
      warp.wait(ring.full[at.stage], at.parity);
      warp.fence_products(dk_sums, ds);
      start_scores(step, scores);
      start_dk(step - 1);
      warp.template wait_products<1>(scores, dv_sums, p);
      is_last = numbers.is_last;
      exponentiate(warp, row, numbers, scores);
      as_factors(warp, scores, p);
      warp.fence_products(dv_sums, p);
      start_gradients(step, gradients);
      start_dv(step);
      warp.template wait_products<1>(gradients, dk_sums, ds);
      warp.arrive(ring.empty[place(step - 1).stage]);
      differentiate(warp, numbers, p, gradients);
      as_factors(warp, gradients, ds);
    }
    warp.fence_products(dk_sums, ds);
    start_dk(step - 1);
    warp.template wait_products<0>(dk_sums, dv_sums, p, ds);
    // Read again: kept from the start, it would take a register all the while.
    const KeyItem& item = items[warp.block() / static_cast<std::size_t>(a.kv_heads)];
    const auto gradients_row = static_cast<std::size_t>(item.gradients);
    add_rows<dim>(warp, dk, gradients_row, row, b.rows, b.column, a.scale, dk_sums);
    add_rows<dim>(warp, dv, gradients_row, row, b.rows, b.column, 1.0F, dv_sums);
  }
};

}  // namespace slimpack::kernels::cuda
