#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cuda/library_plans.hpp"
#include "kernels/cuda/portable.hpp"
#include "kernels/math/gemm.hpp"
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

/// The layout of a task with its tokens rounded up, eight steps from a power of two to the next: cuBLASLt's choice for
/// it serves all of these. Tokens are the rows of a, and those of b and the sums' numbers where a enters
/// transposed.
[[nodiscard]] inline GemmLayout rounded_tokens(Product product, GemmLayout layout) {
  const auto round = [](std::size_t& tokens) {
    tokens = static_cast<std::size_t>(rounded_up(static_cast<std::int64_t>(tokens), 64, 8));
  };
  round(layout.right.cols);
  if (product == Product::transposed_multiply) {
    round(layout.left.cols);
    round(layout.depth);
  } else {
    round(layout.result.cols);
  }
  return layout;
}

/// Matrix products by cuBLASLt: bf16 factors, sums in float, results in bf16 or float. All data lies in the
/// GPU's memory. Asks cuBLASLt for its choice once per shape with rounded tokens, and keeps the choices that were used
/// last. One object serves one thread, on one GPU, and work in one stream at a time, since products share the
/// workspace.
class Gemm {
 public:
  /// @param workspace memory of the GPU, 32 MiB on Hopper for all of cuBLASLt's ways; none is allowed
  /// @throws InvalidInput without a GPU, as `require_reachable`; std::runtime_error if cuBLASLt can't start.
  explicit Gemm(std::span<std::byte> workspace);
  ~Gemm();
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;

  /// The product of a and b, or its sum with c: see `multiply` and its neighbours in kernels/math/gemm.hpp.
  /// @throws InvalidInput naming the shapes if they don't fit; std::runtime_error if cuBLASLt has no way
  /// for them. O(m n k).
  void run(Product product, const MatrixView<const Bf16>& a, const MatrixView<const Bf16>& b,
           const MatrixView<Bf16>& c, Update update, Stream stream);
  void run(Product product, const MatrixView<const Bf16>& a, const MatrixView<const Bf16>& b,
           const MatrixView<float>& c, Update update, Stream stream);

  /// Tries the best eight ways to the products that were asked for most, each product once, and keeps the fastest:
  /// for between steps, since the host waits. A product that was tried may get other last bits.
  /// @param scratch memory of the GPU for their matrices, is overwritten; what needs more is not tried
  /// @returns how many were tried. Some hundred milliseconds when new shapes are in use, none later.
  std::size_t try_hot(std::span<std::byte> scratch, Stream stream);

 private:
  struct State;

  std::unique_ptr<State> state_;
};

}  // namespace slimpack::kernels::cuda
