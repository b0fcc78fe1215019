#pragma once

#include <compare>
#include <cstddef>

#include "kernels/math/matrix.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// The products of kernels/math/gemm.hpp.
enum class Product { multiply, multiply_transposed, transposed_multiply };

/// A factor or the result as cuBLASLt sees it: by columns. Consecutive rows are columns of the
/// transposed matrix, so c = a b becomes c^T = b^T a^T, and nothing has to be moved.
struct ColumnMajor {
  std::size_t rows = 0, cols = 0, leading = 0;
  bool is_transposed = false;  ///< it enters the product transposed

  friend auto operator<=>(const ColumnMajor&, const ColumnMajor&) = default;
};

/// What cuBLASLt is asked for: result = left right.
struct GemmLayout {
  ColumnMajor left, right;  ///< left is b, right is a
  ColumnMajor result;
  std::size_t depth = 0;  ///< numbers in each sum

  friend auto operator<=>(const GemmLayout&, const GemmLayout&) = default;
};

/// @throws InvalidInput naming the shapes if they don't fit. O(1).
template <class In, class Out>
[[nodiscard]] GemmLayout gemm_layout(Product product, const MatrixView<In>& a, const MatrixView<In>& b,
                                     const MatrixView<Out>& c) {
  const auto by_columns = [](const auto& m, bool is_transposed) {
    return ColumnMajor{m.cols, m.rows, m.stride, is_transposed};
  };
  const bool b_turned = product == Product::multiply_transposed,
             a_turned = product == Product::transposed_multiply;
  const std::size_t m = a_turned ? a.cols : a.rows, depth = a_turned ? a.rows : a.cols;
  const std::size_t n = b_turned ? b.rows : b.cols, b_depth = b_turned ? b.cols : b.rows;
  require(depth == b_depth && c.rows == m && c.cols == n, "product of [", m, " x ", depth, "] and [", b_depth,
          " x ", n, "] shall become a matrix of [", c.rows, " x ", c.cols, "]; expected shapes that fit");
  return {by_columns(b, b_turned), by_columns(a, a_turned), by_columns(c, false), depth};
}

}  // namespace slimpack::kernels::cuda
