#pragma once

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_tiles.hpp"

namespace slimpack::kernels::cuda {

/// Tiles of queries that see an item's keys: of all slices of the sample, and of all heads of the group.
/// @param queries of a tile
template <int queries>
struct KeyQueries {
  const AttentionArguments& a;
  KeyItem item;
  int kv_head;

  /// One of the tiles.
  struct Cursor {
    int slice, head, first;
  };

  /// The first tile; false if there is none.
  [[nodiscard]] SLIMPACK_DEVICE bool begin(Cursor& at) const {
    at = {item.slice - 1, 0, 0};
    return next_slice(at);
  }

  /// The next tile: of the slice's head, of its next head, of the next slice. False after the last.
  [[nodiscard]] SLIMPACK_DEVICE bool advance(Cursor& at) const {
    at.first += queries;
    if (at.first < a.slices[at.slice].tokens) return true;
    at.first = first_query(a.slices[at.slice]);
    if (++at.head < (kv_head + 1) * a.group()) return true;
    return next_slice(at);
  }

  /// Keys of a sample that any of its slices sees.
  [[nodiscard]] SLIMPACK_DEVICE int keys_of_sample() const {
    int keys = 0;
    for (int i = item.slice; i < item.end; ++i) {
      const int seen = a.slices[i].seen();
      keys = seen > keys ? seen : keys;
    }
    return keys;
  }

  /// Which queries of a tile see the item's key r: those from (first + r) * factor on, 0 or less meaning all
  /// of them, `queries` or more none.
  struct Sight {
    int first, factor;
  };
  [[nodiscard]] SLIMPACK_DEVICE Sight sight(const Cursor& at) const {
    const AttentionSlice& slice = a.slices[at.slice];
    if (slice.own_keys != 0) return {item.first - slice.prefix - at.first, 1};
    return {item.first - slice.prefix + 1, queries};
  }

 private:
  /// The first tile of the next slice that sees the item's keys.
  [[nodiscard]] SLIMPACK_DEVICE bool next_slice(Cursor& at) const {
    while (++at.slice < item.end) {
      const AttentionSlice& slice = a.slices[at.slice];
      if (slice.seen() <= item.first) continue;
      at.head = kv_head * a.group();
      at.first = first_query(slice);
      return true;
    }
    return false;
  }

  [[nodiscard]] SLIMPACK_DEVICE int first_query(const AttentionSlice& slice) const {
    return slice.own_keys != 0 && item.first > slice.prefix ? item.first - slice.prefix : 0;
  }
};

/// Adds a warp's 16 rows of sums to rows of a float matrix. @param row of the tile, of which there are `rows`
template <int dim, class Warp>
SLIMPACK_DEVICE inline void add_rows(Warp& warp, const MatrixView<float>& to, std::size_t first_row, int row,
                                     int rows, int column, float scale,
                                     const LanesOf<Warp, Sums<dim>>& sums) {
  warp.lanes([&](int lane) {
    SLIMPACK_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Place at = place_in_sum(lane, half * 2);
      const int r = row + at.row;
      if (r >= rows) continue;
      float* out = row_of(to, first_row + static_cast<std::size_t>(r)) + column + at.col;
      SLIMPACK_UNROLL
      for (int n = 0; n < dim / 8; ++n) {
        out[n * 8] += sums[lane].at[n][half * 2] * scale;
        out[n * 8 + 1] += sums[lane].at[n][half * 2 + 1] * scale;
      }
    }
  });
}

}  // namespace slimpack::kernels::cuda
