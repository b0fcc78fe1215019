#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "kernels/cuda/device/block.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// A block per row: the sum of x and the residual where there is one, and its norm.
template <int n>
struct RmsNormKernel {
  MatrixView<const Bf16> x, residual;  ///< [tokens x hidden]; no residual without data
  MatrixView<Bf16> sum;                ///< [tokens x hidden]
  const Bf16* weight = nullptr;        ///< [hidden]
  MatrixView<Bf16> y;                  ///< [tokens x hidden]
  float epsilon = 0;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    auto* scratch = reinterpret_cast<float*>(warp.shared());
    for (std::size_t row = warp.block(); row < x.rows; row += warp.blocks()) {
      LanesOf<Warp, float> squares{};
      for_each_in_block<n>(warp, x.cols, [&](int lane, std::size_t i) {
        const Pack<n> values = input(row, i);
        SLIMPACK_UNROLL
        for (int j = 0; j < n; ++j) squares[lane] += values.at[j] * values.at[j];
      });
      const float mean = sum_block(warp, squares, scratch) / static_cast<float>(x.cols);
      const float factor = 1.0F / sqrtf(mean + epsilon);
      // A thread meets the numbers here that it met above, so y and sum may be x.
      for_each_in_block<n>(warp, x.cols, [&](int, std::size_t i) {
        Pack<n> values = input(row, i);
        if (sum.data != nullptr) store(row_of(sum, row) + i, values);
        const Pack<n> w = load<n>(weight + i);
        SLIMPACK_UNROLL
        for (int j = 0; j < n; ++j) values.at[j] *= factor * w.at[j];
        store(row_of(y, row) + i, values);
      });
    }
  }

 private:
  /// With a residual, the sum as it is stored: backward then meets the numbers that forward used.
  [[nodiscard]] SLIMPACK_DEVICE Pack<n> input(std::size_t row, std::size_t i) const {
    Pack<n> values = load<n>(row_of(x, row) + i);
    if (residual.data != nullptr) {
      const Pack<n> more = load<n>(row_of(residual, row) + i);
      SLIMPACK_UNROLL
      for (int j = 0; j < n; ++j) values.at[j] = to_float(to_bf16(values.at[j] + more.at[j]));
    }
    return values;
  }
};

/// A block per row: adds to the gradient of the input, and keeps the factor of each row.
template <int n>
struct RmsNormInputKernel {
  MatrixView<const Bf16> x, dy;
  const Bf16* weight = nullptr;
  MatrixView<Bf16> dx;
  float* factors = nullptr;  ///< [tokens]
  float epsilon = 0;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    auto* scratch = reinterpret_cast<float*>(warp.shared());
    for (std::size_t row = warp.block(); row < x.rows; row += warp.blocks()) {
      LanesOf<Warp, float> squares{}, products{};
      for_each_in_block<n>(warp, x.cols, [&](int lane, std::size_t i) {
        const Pack<n> a = load<n>(row_of(x, row) + i), g = load<n>(row_of(dy, row) + i),
                      w = load<n>(weight + i);
        SLIMPACK_UNROLL
        for (int j = 0; j < n; ++j) {
          squares[lane] += a.at[j] * a.at[j];
          products[lane] += a.at[j] * g.at[j] * w.at[j];
        }
      });
      const auto hidden = static_cast<float>(x.cols);
      const float factor = 1.0F / sqrtf(sum_block(warp, squares, scratch) / hidden + epsilon);
      const float along = sum_block(warp, products, scratch) * factor * factor * factor / hidden;
      for_each_in_block<n>(warp, x.cols, [&](int, std::size_t i) {
        const Pack<n> a = load<n>(row_of(x, row) + i), g = load<n>(row_of(dy, row) + i),
                      w = load<n>(weight + i);
        Pack<n> d = load<n>(row_of(dx, row) + i);
        SLIMPACK_UNROLL
        for (int j = 0; j < n; ++j) d.at[j] += g.at[j] * w.at[j] * factor - a.at[j] * along;
        store(row_of(dx, row) + i, d);
      });
      warp.lanes([&](int lane) {
        if (warp.warp() == 0 && lane == 0) factors[row] = factor;
      });
    }
  }
};

/// A block per strip of columns and part of the rows: the part's gradient of the weight. A lane has n columns.
template <int n>
struct RmsNormWeightKernel {
  MatrixView<const Bf16> x, dy;
  const float* factors = nullptr;  ///< [tokens]
  float* parts = nullptr;          ///< [parts x hidden]
  std::size_t part_rows = 0;
  std::size_t strips = 0;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const std::size_t strip = warp.block() % strips, part = warp.block() / strips;
    const std::size_t first = part * part_rows;
    const std::size_t last = first + part_rows < x.rows ? first + part_rows : x.rows;
    warp.lanes([&](int lane) {
      const auto warps = static_cast<std::size_t>(warp.warps());
      const std::size_t column = n * ((strip * warps + static_cast<std::size_t>(warp.warp())) * warp_lanes +
                                      static_cast<std::size_t>(lane));
      if (column >= x.cols) return;
      float sums[n] = {};
      for (std::size_t row = first; row < last; ++row) {
        const Pack<n> a = load<n>(row_of(x, row) + column), g = load<n>(row_of(dy, row) + column);
        SLIMPACK_UNROLL
        for (int j = 0; j < n; ++j) sums[j] += factors[row] * a.at[j] * g.at[j];
      }
      SLIMPACK_UNROLL
      for (int j = 0; j < n; ++j) parts[part * x.cols + column + static_cast<std::size_t>(j)] = sums[j];
    });
  }
};

/// Adds rows up, the first first, into `out`.
struct AddRowsKernel {
  const float* parts = nullptr;  ///< [count x size]
  std::size_t count = 0, size = 0;
  float* out = nullptr;  ///< [size]

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for_each_in_grid<1>(warp, size, [&](int, std::size_t i) {
      float sum = out[i];
      for (std::size_t part = 0; part < count; ++part) sum += parts[part * size + i];
      out[i] = sum;
    });
  }
};

namespace detail {

inline constexpr std::size_t norm_part_rows = 256;
inline constexpr int row_warps = 4;

[[nodiscard]] constexpr Grid row_grid(std::size_t rows) {
  return {.blocks = blocks_for(rows), .warps = row_warps, .shared = row_warps * sizeof(double)};
}

template <class A, class B>
void require_same_shape(const MatrixView<A>& a, const MatrixView<B>& b, const char* name) {
  require(a.rows == b.rows && a.cols == b.cols, name, " is ", b.rows, " x ", b.cols, "; expected ", a.rows,
          " x ", a.cols);
}

}  // namespace detail

/// Numbers of workspace that the backward pass takes.
[[nodiscard]] constexpr std::size_t rms_norm_workspace(std::size_t tokens, std::size_t hidden) {
  return tokens + (tokens + detail::norm_part_rows - 1) / detail::norm_part_rows * hidden;
}

/// `rms_norm` by any launcher; see rms_norm in operators.hpp.
template <class Launch>
void rms_norm_by(Launch&& launch, const MatrixView<const Bf16>& x, const MatrixView<const Bf16>& residual,
                 const MatrixView<Bf16>& sum, std::span<const Bf16> weight, double epsilon,
                 const MatrixView<Bf16>& y) {
  detail::require_same_shape(x, y, "the norm's output");
  require(weight.size() == x.cols, "the norm's weight has ", weight.size(), " numbers; expected ", x.cols);
  if (residual.data != nullptr) detail::require_same_shape(x, residual, "the residual");
  if (sum.data != nullptr) detail::require_same_shape(x, sum, "the residual's sum");
  if (x.rows == 0 || x.cols == 0) return;
  const auto start = [&](auto kernel) {
    kernel.x = x, kernel.residual = residual, kernel.sum = sum, kernel.weight = weight.data(), kernel.y = y;
    kernel.epsilon = static_cast<float>(epsilon);
    launch(kernel, detail::row_grid(x.rows));
  };
  const bool packs = in_packs(x) && in_packs(y) && in_packs(weight.data()) &&
                     (residual.data == nullptr || in_packs(residual)) &&
                     (sum.data == nullptr || in_packs(sum));
  packs ? start(RmsNormKernel<8>{}) : start(RmsNormKernel<1>{});
}

/// `rms_norm_backward` by any launcher; see there.
template <class Launch>
void rms_norm_backward_by(Launch&& launch, const MatrixView<const Bf16>& x, std::span<const Bf16> weight,
                          double epsilon, const MatrixView<const Bf16>& dy, const MatrixView<Bf16>& dx,
                          std::span<float> dweight, std::span<float> workspace) {
  detail::require_same_shape(x, dy, "the gradient of the norm's output");
  detail::require_same_shape(x, dx, "the gradient of the norm's input");
  require(weight.size() == x.cols && dweight.size() == x.cols, "the norm's weight and its gradient have ",
          weight.size(), " and ", dweight.size(), " numbers; expected ", x.cols);
  const std::size_t needed = rms_norm_workspace(x.rows, x.cols);
  require(workspace.size() >= needed, "the norm's workspace has ", workspace.size(), " numbers; expected ",
          needed);
  if (x.rows == 0 || x.cols == 0) return;
  float* factors = workspace.data();
  float* parts = factors + x.rows;
  const auto start = [&](auto kernel) {
    kernel.x = x, kernel.dy = dy, kernel.weight = weight.data(), kernel.dx = dx, kernel.factors = factors;
    kernel.epsilon = static_cast<float>(epsilon);
    launch(kernel, detail::row_grid(x.rows));
  };
  const bool packs = in_packs(x) && in_packs(dy) && in_packs(dx) && in_packs(weight.data());
  packs ? start(RmsNormInputKernel<8>{}) : start(RmsNormInputKernel<1>{});

  constexpr std::size_t width = detail::row_warps * warp_lanes;
  const std::size_t count = (x.rows + detail::norm_part_rows - 1) / detail::norm_part_rows;
  const auto start_weight = [&]<int n>(RmsNormWeightKernel<n> kernel) {
    kernel.x = x, kernel.dy = dy, kernel.factors = factors, kernel.parts = parts;
    kernel.part_rows = detail::norm_part_rows, kernel.strips = (x.cols + n * width - 1) / (n * width);
    launch(kernel, Grid{.blocks = kernel.strips * count, .warps = detail::row_warps});
  };
  packs ? start_weight(RmsNormWeightKernel<2>{}) : start_weight(RmsNormWeightKernel<1>{});
  launch(AddRowsKernel{parts, count, x.cols, dweight.data()},
         Grid{.blocks = blocks_for((x.cols + width - 1) / width), .warps = detail::row_warps});
}

}  // namespace slimpack::kernels::cuda
