#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/device/block.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// A block per token: its row of the table.
template <int n>
struct EmbeddingKernel {
  MatrixView<const Bf16> table;
  const std::int32_t* ids = nullptr;
  MatrixView<Bf16> out;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for (std::size_t row = warp.block(); row < out.rows; row += warp.blocks()) {
      const Bf16* from = row_of(table, static_cast<std::size_t>(ids[row]));
      for_each_in_block<n>(warp, out.cols,
                           [&](int, std::size_t i) { copy_numbers<n>(row_of(out, row) + i, from + i); });
    }
  }
};

/// A block per id that occurs: adds up its tokens' gradients.
template <int n>
struct EmbeddingBackwardKernel {
  const std::int32_t *ids = nullptr, *begins = nullptr, *tokens = nullptr;
  std::size_t count = 0;  ///< of ids
  MatrixView<const Bf16> dout;
  MatrixView<float> dtable;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for (std::size_t which = warp.block(); which < count; which += warp.blocks()) {
      float* to = row_of(dtable, static_cast<std::size_t>(ids[which]));
      for_each_in_block<n>(warp, dout.cols, [&](int, std::size_t i) {
        float sums[n] = {};
        for (std::int32_t t = begins[which]; t < begins[which + 1]; ++t) {
          const Pack<n> values = load<n>(row_of(dout, static_cast<std::size_t>(tokens[t])) + i);
          SLIMPACK_UNROLL
          for (int j = 0; j < n; ++j) sums[j] += values.at[j];
        }
        SLIMPACK_UNROLL
        for (int j = 0; j < n; ++j) to[i + static_cast<std::size_t>(j)] += sums[j];
      });
    }
  }
};

/// `embedding` by any launcher; see there.
template <class Launch>
void embedding_by(Launch&& launch, const MatrixView<const Bf16>& table, std::span<const std::int32_t> ids,
                  const MatrixView<Bf16>& out) {
  require(out.rows == ids.size() && out.cols == table.cols, "the embedding's output is ", out.rows, " x ",
          out.cols, "; expected ", ids.size(), " x ", table.cols);
  if (out.rows == 0 || out.cols == 0) return;
  const Grid grid{.blocks = blocks_for(out.rows), .warps = 4};
  if (in_packs(table) && in_packs(out)) {
    launch(EmbeddingKernel<8>{table, ids.data(), out}, grid);
  } else {
    launch(EmbeddingKernel<1>{table, ids.data(), out}, grid);
  }
}

/// `embedding_backward` by any launcher; see there.
template <class Launch>
void embedding_backward_by(Launch&& launch, std::span<const std::int32_t> ids,
                           std::span<const std::int32_t> begins, std::span<const std::int32_t> tokens,
                           const MatrixView<const Bf16>& dout, const MatrixView<float>& dtable) {
  require(begins.size() == ids.size() + 1 && tokens.size() == dout.rows, "the order has ", ids.size(),
          " ids, ", begins.size(), " begins and ", tokens.size(), " tokens for ", dout.rows,
          " rows; expected one begin more than ids, and each row once");
  require(dtable.cols == dout.cols, "the table's gradient has ", dtable.cols, " columns; expected ",
          dout.cols);
  if (ids.empty() || dout.cols == 0) return;
  const Grid grid{.blocks = blocks_for(ids.size()), .warps = 4};
  if (in_packs(dout)) {
    launch(EmbeddingBackwardKernel<8>{ids.data(), begins.data(), tokens.data(), ids.size(), dout, dtable},
           grid);
  } else {
    launch(EmbeddingBackwardKernel<1>{ids.data(), begins.data(), tokens.data(), ids.size(), dout, dtable},
           grid);
  }
}

}  // namespace slimpack::kernels::cuda
