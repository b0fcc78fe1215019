#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_launch.hpp"
#include "kernels/cuda/device/block.hpp"
#include "kernels/cuda/portable.hpp"
#include "kernels/math/matrix.hpp"
#include "slimpack/core/error.hpp"

// Attention to keys that come part by part (Liu et al., Ring Attention): outputs that are complete for the keys
// of a part each are merged by their log-sum-exps, in float. Rows are those of the parts' items alone.
namespace slimpack::kernels::cuda {

/// Queries of an item, of one head.
struct ItemRows {
  std::size_t first = 0, count = 0, head = 0;
};

/// What a block of a kernel over items and heads has to do.
template <class Warp>
[[nodiscard]] SLIMPACK_DEVICE inline ItemRows item_rows(Warp& warp, const AttentionSlice* slices,
                                                        const QueryItem* items, int most, std::size_t heads) {
  const QueryItem item = items[warp.block() / heads];
  const AttentionSlice slice = slices[item.slice];
  const int left = slice.tokens - item.first;
  return {static_cast<std::size_t>(slice.query_begin) + static_cast<std::size_t>(item.first),
          static_cast<std::size_t>(left < most ? left : most), warp.block() % heads};
}

/// Log of the sum of two numbers' exponentials.
[[nodiscard]] SLIMPACK_DEVICE inline float log_sum_exp(float x, float y) {
  return fmaxf(x, y) + log1pf(expf(-fabsf(x - y)));
}

/// A block per item and head: outputs, and their log-sum-exps, become those for the keys of both.
struct MergePartsKernel {
  const AttentionSlice* slices = nullptr;
  const QueryItem* items = nullptr;
  int rows = 0;  ///< of an item, at most
  std::size_t heads = 0, dim = 0;
  MatrixView<const Bf16> part;       ///< [tokens x heads * dim]
  MatrixView<const float> part_lse;  ///< [heads x tokens]
  MatrixView<float> sum, lse;        ///< as these

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const ItemRows at = item_rows(warp, slices, items, rows, heads);
    const float* ours = row_of(lse, at.head);
    const float* theirs = row_of(part_lse, at.head);
    for_each_in_block<8>(warp, at.count * dim, [&](int, std::size_t i) {
      const std::uint32_t line = narrow(i) / narrow(dim);
      const std::size_t token = at.first + line, column = at.head * dim + (i - line * dim);
      const float both = log_sum_exp(ours[token], theirs[token]);
      const float kept = expf(ours[token] - both), added = expf(theirs[token] - both);
      const Pack<8> from = load<8>(row_of(part, token) + column);
      float* to = row_of(sum, token) + column;
      SLIMPACK_UNROLL
      for (int j = 0; j < 8; ++j) to[j] = to[j] * kept + from.at[j] * added;
    });
    warp.sync();  // all have read them
    for_each_in_block<1>(warp, at.count, [&](int, std::size_t i) {
      float& own = row_of(lse, at.head)[at.first + i];
      own = log_sum_exp(own, theirs[at.first + i]);
    });
  }
};

/// A block per item and head: sum += part.
struct AddPartsKernel {
  const AttentionSlice* slices = nullptr;
  const QueryItem* items = nullptr;
  int rows = 0;  ///< of an item, at most
  std::size_t heads = 0, dim = 0;
  MatrixView<const Bf16> part;  ///< [tokens x heads * dim]
  MatrixView<float> sum;        ///< as this

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const ItemRows at = item_rows(warp, slices, items, rows, heads);
    for_each_in_block<8>(warp, at.count * dim, [&](int, std::size_t i) {
      const std::uint32_t line = narrow(i) / narrow(dim);
      const std::size_t token = at.first + line, column = at.head * dim + (i - line * dim);
      const Pack<8> from = load<8>(row_of(part, token) + column);
      float* to = row_of(sum, token) + column;
      SLIMPACK_UNROLL
      for (int j = 0; j < 8; ++j) to[j] += from.at[j];
    });
  }
};

/// A block per row: to = from, rounded if it has to be.
template <class From>
struct SetRowsKernel {
  MatrixView<const From> from;
  MatrixView<Bf16> to;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for (std::size_t row = warp.block(); row < from.rows; row += warp.blocks()) {
      for_each_in_block<8>(warp, from.cols, [&](int, std::size_t i) {
        const From* in = row_of(from, row) + i;
        if constexpr (sizeof(From) == sizeof(Bf16)) {
          copy_numbers<8>(row_of(to, row) + i, in);
        } else {
          Pack<8> numbers;
          SLIMPACK_UNROLL
          for (int j = 0; j < 8; ++j) numbers.at[j] = in[j];
          store(row_of(to, row) + i, numbers);
        }
      });
    }
  }
};

namespace detail {

inline void require_part(const HeadShape& shape, const AttentionItems& items,
                         const MatrixView<const Bf16>& part, const MatrixView<float>& sum) {
  require(part.cols == shape.query_width() && sum.rows == part.rows && sum.cols == part.cols, "a part is ",
          part.rows, " x ", part.cols, " and the sum ", sum.rows, " x ", sum.cols,
          "; expected as many rows of ", shape.query_width());
  require_packs(in_packs(part), "a part of attention");
  require(items.rows > 0, "a part's items have ", items.rows, " rows; expected those of attention's work");
}

}  // namespace detail

/// Merges attention to other keys into what there is: rows of the items become the output for the keys of both,
/// the others stay as they are.
/// @param part [tokens x heads * head_dim] @param part_lse [heads x tokens], of `attention` for these items
/// @param sum, lse of the same sizes, the output and log-sum-exps so far; are set
template <class Launch>
void merge_parts_by(Launch&& launch, const HeadShape& shape, const AttentionItems& items,
                    const MatrixView<const Bf16>& part, const MatrixView<const float>& part_lse,
                    const MatrixView<float>& sum, const MatrixView<float>& lse) {
  detail::require_part(shape, items, part, sum);
  detail::require_per_head(shape, part.rows, part_lse, "a part's log-sum-exps");
  detail::require_per_head(shape, part.rows, lse, "the log-sum-exps");
  if (items.queries.empty()) return;
  launch(MergePartsKernel{items.slices.data(), items.queries.data(), items.rows, shape.heads, shape.head_dim,
                          part, part_lse, sum, lse},
         Grid{.blocks = items.queries.size() * shape.heads, .warps = 4});
}

/// Adds gradients of queries: sum += part in rows of the items.
/// @param part, sum [tokens x heads * head_dim]
template <class Launch>
void add_parts_by(Launch&& launch, const HeadShape& shape, const AttentionItems& items,
                  const MatrixView<const Bf16>& part, const MatrixView<float>& sum) {
  detail::require_part(shape, items, part, sum);
  if (items.queries.empty()) return;
  launch(AddPartsKernel{items.slices.data(), items.queries.data(), items.rows, shape.heads, shape.head_dim,
                        part, sum},
         Grid{.blocks = items.queries.size() * shape.heads, .warps = 4});
}

/// Copies rows, rounding floats.
template <class Launch, class From>
void set_rows_by(Launch&& launch, const MatrixView<const From>& from, const MatrixView<Bf16>& to) {
  require(from.rows == to.rows && from.cols == to.cols && in_packs(from) && in_packs(to), "rows to copy are ",
          from.rows, " x ", from.cols, "; expected ", to.rows, " x ", to.cols, " in packs");
  if (from.rows == 0 || from.cols == 0) return;
  launch(SetRowsKernel<From>{from, to}, Grid{.blocks = blocks_for(from.rows), .warps = 4});
}

}  // namespace slimpack::kernels::cuda
