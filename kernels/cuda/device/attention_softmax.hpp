#pragma once

#include <cmath>
#include <cstddef>

#include "kernels/cuda/device/attention_tiles.hpp"
#include "kernels/cuda/device/warp_product.hpp"

// The online softmax of attention's forward kernels, on a warp's 16 rows of scores.
namespace slimpack::kernels::cuda {

/// Hides the keys after each row's position: row r sees those up to limit + step * r.
template <int keys, class Warp>
SLIMPACK_DEVICE inline void hide_later_keys(Warp& warp, int limit, int step,
                                            LanesOf<Warp, Sums<keys>>& scores) {
  warp.lanes([&](int lane) {
    const Place first = place_in_sum(lane, 0);
    const int left = limit + step * first.row - first.col;
    SLIMPACK_UNROLL
    for (int n = 0; n < keys / 8; ++n) {
      SLIMPACK_UNROLL
      for (int i = 0; i < 4; ++i) {
        const Place from_first = place_in_sum(0, i);
        if (n * 8 + from_first.col > left + step * from_first.row) scores[lane].at[n][i] = -INFINITY;
      }
    }
  });
}

/// Of each row the largest score so far, and the lane's part of the sum of exp(score - largest).
template <class Warp>
struct SoftmaxRows {
  LanesOf<Warp, TwoRows> most, total;

  SLIMPACK_DEVICE explicit SoftmaxRows(Warp& warp) {
    warp.lanes([&](int lane) {
      most[lane] = {-INFINITY, -INFINITY};
      total[lane] = {0, 0};
    });
  }
};

/// Scores become exp(score - largest); gives what brings sums that were gathered before to the new largest.
/// @param factor log2(e) times the scale of the scores
template <int keys, class Warp>
[[nodiscard]] SLIMPACK_DEVICE inline LanesOf<Warp, TwoRows> soften(Warp& warp, float factor,
                                                                   LanesOf<Warp, Sums<keys>>& scores,
                                                                   SoftmaxRows<Warp>& rows) {
  LanesOf<Warp, TwoRows> now = rows.most, kept;
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
  warp.lanes([&](int lane) {
    SLIMPACK_UNROLL
    for (int row = 0; row < 2; ++row) {
      kept[lane].at[row] = power_of_2((rows.most[lane].at[row] - now[lane].at[row]) * factor);
      rows.total[lane].at[row] *= kept[lane].at[row];
    }
    const float shift[2] = {now[lane].at[0] * factor, now[lane].at[1] * factor};
    SLIMPACK_UNROLL
    for (int n = 0; n < keys / 8; ++n) {
      SLIMPACK_UNROLL
      for (int i = 0; i < 4; ++i) {
        float& score = scores[lane].at[n][i];
        score = power_of_2(score * factor - shift[i / 2]);
        rows.total[lane].at[i / 2] += score;
      }
    }
  });
  rows.most = now;
  return kept;
}

/// Brings sums to the new largest scores.
template <int dim, class Warp>
SLIMPACK_DEVICE inline void rescale(Warp& warp, const LanesOf<Warp, TwoRows>& kept,
                                    LanesOf<Warp, Sums<dim>>& sums) {
  warp.lanes([&](int lane) {
    SLIMPACK_UNROLL
    for (int n = 0; n < dim / 8; ++n) {
      SLIMPACK_UNROLL
      for (int i = 0; i < 4; ++i) sums[lane].at[n][i] *= kept[lane].at[i / 2];
    }
  });
}

/// Where a warp's 16 rows of an item go.
struct OutputRows {
  MatrixView<Bf16> out;
  MatrixView<float> lse;  ///< [heads x tokens]
  std::size_t first_row;  ///< of the item
  int head, row, rows;    ///< the warp's first row, and how many the item has
  float scale;
};

/// Divides by the rows' sums, and writes the output and the log-sum-exps.
template <int dim, class Warp>
SLIMPACK_DEVICE inline void write_output(Warp& warp, const OutputRows& to, SoftmaxRows<Warp>& softmax,
                                         const LanesOf<Warp, Sums<dim>>& sums) {
  combine_lanes<Warp, TwoRows>(warp, softmax.total, 2, [](const TwoRows& x, const TwoRows& y) {
    return TwoRows{x.at[0] + y.at[0], x.at[1] + y.at[1]};
  });
  warp.lanes([&](int lane) {
    SLIMPACK_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Place at = place_in_sum(lane, half * 2);
      const int row = to.row + at.row;
      if (row >= to.rows) continue;
      const std::size_t token = to.first_row + static_cast<std::size_t>(row);
      const float sum = softmax.total[lane].at[half], inverse = 1.0F / sum;
      if (at.col == 0) {
        row_of(to.lse, static_cast<std::size_t>(to.head))[token] =
            softmax.most[lane].at[half] * to.scale + logf(sum);
      }
      Bf16* out = row_of(to.out, token) + to.head * dim + at.col;
      SLIMPACK_UNROLL
      for (int n = 0; n < dim / 8; ++n) {
        const float* from = sums[lane].at[n] + half * 2;
        store_pair(out + n * 8, from[0] * inverse, from[1] * inverse);
      }
    }
  });
}

}  // namespace slimpack::kernels::cuda
