#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/warp_product.hpp"
#include "kernels/math/matrix.hpp"

// What attention's forward and backward kernels share.
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

/// A block's queries of an item.
struct QueryTile {
  AttentionSlice slice;
  int rows;               ///< at most those of an item
  int place;              ///< of the key that its first query sees last
  int seen;               ///< keys, by the last query
  std::size_t first_row;  ///< of the pack

  /// Keys by which a row sees more than the one before: `slice.own_keys`, of numbers that kernels have in
  /// registers anyway. Of one row it makes no difference.
  [[nodiscard]] SLIMPACK_DEVICE int step() const { return seen - place == rows ? 1 : 0; }
  /// Place of the key that a row sees last.
  [[nodiscard]] SLIMPACK_DEVICE int last_key(int row) const { return place + step() * row; }
};

/// @param most rows of an item
[[nodiscard]] SLIMPACK_DEVICE inline QueryTile query_tile(const AttentionArguments& a, const QueryItem& item,
                                                          int most) {
  const AttentionSlice slice = a.slices[item.slice];
  const int left = slice.tokens - item.first, rows = left < most ? left : most;
  const int place = slice.own_keys != 0 ? slice.prefix + item.first : slice.prefix - 1;
  return {slice, rows, place, slice.own_keys != 0 ? place + rows : slice.prefix,
          static_cast<std::size_t>(slice.query_begin) + static_cast<std::size_t>(item.first)};
}

/// Starts to copy a tile of a sample's keys, and then of its values. @param keys of a tile
template <int keys, int dim, class Warp>
SLIMPACK_DEVICE inline void copy_keys(Warp& warp, const AttentionArguments& a, const QueryTile& queries,
                                      int head, int tile, Bf16* stage) {
  const std::size_t row =
      static_cast<std::size_t>(queries.slice.key_begin) + static_cast<std::size_t>(tile) * keys;
  const int column = head / a.group() * dim, valid = queries.seen - tile * keys;
  copy_tile<keys, dim>(warp, row_of(a.k, row) + column, a.k.stride, valid, stage);
  copy_tile<keys, dim>(warp, row_of(a.v, row) + column, a.v.stride, valid, stage + keys * dim);
  warp.commit_copies();
}

/// sums += the warp's 16 rows of a tile times another tile transposed.
template <class Product, int dim, int columns, class Warp>
SLIMPACK_DEVICE inline void multiply_rows(Warp& warp, const Bf16* rows, const Bf16* tile,
                                          LanesOf<Warp, Sums<columns>>& sums) {
  Product::template multiply_transposed<dim, columns>(
      warp,
      [&](int step) {
        LanesOf<Warp, Fragment> left;
        Product::template load_left<dim>(warp, rows, warp.warp() * 16, step, left);
        return left;
      },
      tile, sums);
}

}  // namespace slimpack::kernels::cuda
