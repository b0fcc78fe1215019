#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_softmax.hpp"
#include "kernels/cuda/device/attention_tiles.hpp"
#include "kernels/cuda/device/group_product.hpp"
#include "kernels/cuda/device/wide_tile.hpp"
#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::cuda {

/// Where the copy engine finds what attention reads.
struct AttentionMaps {
  TensorMap q, k, v;
};

/// A block per item and head on Hopper, as FlashAttention-3 (Shah et al., 2024, algorithm 2) has it. One warp
/// brings tiles into rings of shared memory; two groups of warps take 64 queries each. In a group, the
/// product of the next scores is in progress while those of the previous tile meet their values, and its
/// softmax runs during the latter; the groups take turns, so that one's softmax runs during the other's
/// products.
template <int dim>
struct AttentionWgmmaForwardKernel {
  static constexpr int keys = 128, stages = 2;
  static constexpr int groups = block_groups, warps = groups * group_warps;
  using QueryTileShape = WideTile<group_attention_rows, dim>;
  using KeyTileShape = WideTile<keys, dim>;

  struct Barriers {
    Mbarrier queries;
    RingBarriers<stages> keys, values;
  };
  static constexpr std::size_t tiles_bytes = QueryTileShape::bytes + 2 * stages * KeyTileShape::bytes;
  static constexpr std::size_t shared = tiles_bytes + sizeof(Barriers);

  AttentionArguments a;
  AttentionMaps maps;
  const QueryItem* items = nullptr;
  MatrixView<Bf16> out;
  MatrixView<float> lse;  ///< [heads x tokens]

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const Block block = this->block(warp);
    if (warp.warp() == 0) {
      warp.begin_barrier(block.barriers->queries, 1);
      begin_ring(warp, block.barriers->keys, block.consumers * group_warps);
      begin_ring(warp, block.barriers->values, block.consumers * group_warps);
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
    Bf16 *q, *k, *v;
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
    b.k = reinterpret_cast<Bf16*>(memory + QueryTileShape::bytes);
    b.v = reinterpret_cast<Bf16*>(memory + QueryTileShape::bytes + stages * KeyTileShape::bytes);
    b.barriers = reinterpret_cast<Barriers*>(memory + tiles_bytes);
    return b;
  }

  [[nodiscard]] SLIMPACK_DEVICE TilePlace key_rows(const Block& b, int tile) const {
    return {static_cast<std::size_t>(b.queries.slice.key_begin) + static_cast<std::size_t>(tile) * keys,
            b.head / a.group() * dim, b.queries.seen - tile * keys};
  }

  /// The group's other warps bring the last values, unless these fill a tile.
  template <class Warp>
  SLIMPACK_DEVICE void help(Warp& warp, const Block& b) const {
    const TilePlace rows = key_rows(b, b.tiles - 1);
    if (rows.valid >= keys) return;
    const int stage = ring_place<stages>(b.tiles - 1).stage;
    meet_for_tile(warp);
    bring_share<KeyTileShape>(warp, a.v, rows, stage_of<KeyTileShape>(b.v, stage));
    meet_for_tile(warp);
  }

  template <class Warp>
  SLIMPACK_DEVICE void produce(Warp& warp, const Block& b) const {
    // Rows after the item's may be anything: each row's result is its own, and these are not written.
    bring_tile<QueryTileShape>(warp, maps.q, {b.queries.first_row, b.head * dim, b.queries.rows}, b.q,
                               b.barriers->queries);
    warp.arrive(b.barriers->queries);
    for (int tile = 0; tile < b.tiles; ++tile) {
      const RingPlace at = ring_place<stages>(tile);
      const TilePlace rows = key_rows(b, tile);
      RingBarriers<stages>&k_ring = b.barriers->keys, &v_ring = b.barriers->values;
      warp.wait(k_ring.empty[at.stage], at.parity ^ 1U);
      // Scores of keys after the valid ones are hidden, but 0 times NaN is NaN.
      bring_tile<KeyTileShape>(warp, maps.k, rows, stage_of<KeyTileShape>(b.k, at.stage),
                               k_ring.full[at.stage]);
      warp.arrive(k_ring.full[at.stage]);
      warp.wait(v_ring.empty[at.stage], at.parity ^ 1U);
      if (rows.valid >= keys) {
        bring_tile<KeyTileShape>(warp, maps.v, rows, stage_of<KeyTileShape>(b.v, at.stage),
                                 v_ring.full[at.stage]);
      } else {
        meet_for_tile(warp);  // the others bring them
        meet_for_tile(warp);
      }
      warp.arrive(v_ring.full[at.stage]);
    }
  }

  /// The scores of a tile become probabilities, those of keys that a row does not see 0.
  /// @param limit key that the warp's first row sees last
  template <class Warp>
  [[nodiscard]] SLIMPACK_DEVICE LanesOf<Warp, TwoRows> probabilities(Warp& warp, const Block& b, int limit,
                                                                     LanesOf<Warp, Sums<keys>>& scores,
                                                                     SoftmaxRows<Warp>& softmax) const {
    if (limit < keys - 1) hide_later_keys<keys>(warp, limit, b.queries.step(), scores);
    return soften<keys>(warp, a.scale * log2_of_e, scores, softmax);
  }

  template <class Warp>
  SLIMPACK_DEVICE void consume(Warp& warp, const Block& b, int group) const {
    const int row = group * group_rows + warp.warp_of_group() * 16;
    const int last_key = b.queries.last_key(row);  // of the warp's first row
    RingBarriers<stages>&k_ring = b.barriers->keys, &v_ring = b.barriers->values;
    LanesOf<Warp, Sums<dim>> sums{};
    LanesOf<Warp, Sums<keys>> scores;
    LanesOf<Warp, Fragment> p[keys / 16];
    SoftmaxRows<Warp> softmax(warp);

    const auto start_scores = [&](int stage) {
      GroupProduct::multiply_transposed<QueryTileShape, KeyTileShape>(
          warp, b.q, group * group_rows, stage_of<KeyTileShape>(b.k, stage), scores);
      warp.commit_products();
    };
    const auto start_sums = [&](int stage) {
      GroupProduct::multiply<KeyTileShape, dim>(warp, p, stage_of<KeyTileShape>(b.v, stage), sums);
      warp.commit_products();
    };
    const auto take_probabilities = [&] {
      SLIMPACK_UNROLL
      for (int step = 0; step < keys / 16; ++step) p[step] = as_left<Warp, keys>(warp, scores, step);
    };

    warp.wait(b.barriers->queries, 0);
    warp.wait(k_ring.full[0], 0);
    warp.fence_products(scores);
    start_scores(0);
    warp.template wait_products<0>(scores);
    warp.arrive(k_ring.empty[0]);
    static_cast<void>(probabilities(warp, b, last_key, scores, softmax));
    take_probabilities();

    const bool in_turns = b.consumers == 2 && b.tiles > 1;
    if (in_turns && group == 1) warp.arrive_at_turn(0, 2 * group_warps);  // group 0 begins
    for (int tile = 1; tile < b.tiles; ++tile) {
      const RingPlace now = ring_place<stages>(tile), before = ring_place<stages>(tile - 1);
      warp.wait(k_ring.full[now.stage], now.parity);
      if (in_turns) warp.wait_for_turn(group, 2 * group_warps);
      warp.fence_products(scores);
      start_scores(now.stage);
      warp.wait(v_ring.full[before.stage], before.parity);
      warp.fence_products(sums, p);
      start_sums(before.stage);
      // Nobody waits for group 0's turn after group 1's last.
      if (in_turns && (group == 0 || tile + 1 < b.tiles)) warp.arrive_at_turn(1 - group, 2 * group_warps);
      warp.template wait_products<1>(scores);
      warp.arrive(k_ring.empty[now.stage]);
      const auto kept = probabilities(warp, b, last_key - tile * keys, scores, softmax);
      warp.compute_now(softmax.total, -a.scale);
      warp.template wait_products<0>(sums, p);
      warp.arrive(v_ring.empty[before.stage]);
      rescale<dim>(warp, kept, sums);
      take_probabilities();
    }
    const RingPlace last = ring_place<stages>(b.tiles - 1);
    warp.wait(v_ring.full[last.stage], last.parity);
    warp.fence_products(sums, p);
    start_sums(last.stage);
    warp.template wait_products<0>(sums, p);
    write_output<dim>(warp, {out, lse, b.queries.first_row, b.head, row, b.queries.rows, a.scale}, softmax,
                      sums);
  }
};

}  // namespace slimpack::kernels::cuda
