#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "kernels/cuda/device/block.hpp"
#include "kernels/math/matrix.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// A block per row: to += from, n numbers at a time; or the rows of `to` that `rows` names, each once.
template <class From, int n>
struct AccumulateRowsKernel {
  MatrixView<const From> from;
  MatrixView<float> to;
  const std::int32_t* rows = nullptr;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for (std::size_t row = warp.block(); row < from.rows; row += warp.blocks()) {
      const std::size_t there = rows == nullptr ? row : static_cast<std::size_t>(rows[row]);
      for_each_in_block<n>(warp, from.cols, [&](int /*lane*/, std::size_t i) {
        float* sums = row_of(to, there) + i;
        if constexpr (sizeof(From) == sizeof(float)) {
          *sums += row_of(from, row)[i];
        } else {
          const Pack<n> numbers = load<n>(row_of(from, row) + i);
          SLIMPACK_UNROLL
          for (int j = 0; j < n; ++j) sums[j] += numbers.at[j];
        }
      });
    }
  }
};

/// `accumulate_rows` by any launcher; see operators.hpp.
template <class Launch, class From>
void accumulate_rows_by(Launch&& launch, const MatrixView<From>& from, const MatrixView<float>& to,
                        std::span<const std::int32_t> rows = {}) {
  const std::size_t expected = rows.empty() ? to.rows : rows.size();
  require(from.rows == expected && from.cols == to.cols, "rows to add are ", from.rows, " x ", from.cols,
          "; expected ", expected, " x ", to.cols);
  if (from.rows == 0) return;
  using Number = std::remove_const_t<From>;
  const Grid grid{.blocks = blocks_for(from.rows), .warps = 4};
  if constexpr (sizeof(Number) == sizeof(Bf16)) {
    if (in_packs(from)) return launch(AccumulateRowsKernel<Number, 8>{from, to, rows.data()}, grid);
  }
  launch(AccumulateRowsKernel<Number, 1>{from, to, rows.data()}, grid);
}

}  // namespace slimpack::kernels::cuda
