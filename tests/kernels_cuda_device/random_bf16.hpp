#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "kernels/cuda/portable.hpp"
#include "kernels/math/matrix.hpp"
#include "tests/kernels/random.hpp"

// Rows of bf16, the same in double, and how far a result is from what double precision gives.
namespace slimpack::testing {

/// Bf16 rows within wider ones: whatever stands next to them has to stay.
class Bf16Rows {
 public:
  Bf16Rows() = default;
  /// @param stride 0: as cols
  Bf16Rows(std::size_t rows, std::size_t cols, std::size_t stride = 0, std::uint16_t fill = 0x7fff)
      : rows_(rows), cols_(cols), stride_(stride == 0 ? cols : stride), data_(rows * stride_ + 8, {fill}) {}

  [[nodiscard]] kernels::MatrixView<kernels::cuda::Bf16> view() {
    return {data_.data() + offset_, rows_, cols_, stride_};
  }
  [[nodiscard]] kernels::MatrixView<const kernels::cuda::Bf16> view() const {
    return {data_.data() + offset_, rows_, cols_, stride_};
  }
  [[nodiscard]] std::span<const kernels::cuda::Bf16> span() const {
    return {data_.data() + offset_, rows_ * cols_};
  }
  /// Begins the rows in the middle of 16 bytes.
  void misalign() { offset_ = 1; }

  [[nodiscard]] kernels::Matrix<double> in_double() const {
    kernels::Matrix<double> out(rows_, cols_);
    for (std::size_t r = 0; r < rows_; ++r) {
      for (std::size_t c = 0; c < cols_; ++c) {
        out.view().row(r)[c] = static_cast<double>(kernels::cuda::to_float(view().row(r)[c]));
      }
    }
    return out;
  }

  /// Whether the numbers next to the rows are still none.
  [[nodiscard]] bool margins_are_untouched() const {
    for (std::size_t r = 0; r < rows_; ++r) {
      for (std::size_t c = cols_; c < stride_; ++c) {
        if (view().row(r)[c].bits != 0x7fff) return false;
      }
    }
    return true;
  }

 private:
  std::size_t rows_ = 0, cols_ = 0, stride_ = 0, offset_ = 0;
  kernels::AlignedVector<kernels::cuda::Bf16> data_;
};

[[nodiscard]] inline Bf16Rows random_bf16(std::mt19937& random, std::size_t rows, std::size_t cols,
                                          std::size_t stride = 0, double scale = 1.0) {
  Bf16Rows out(rows, cols, stride);
  std::normal_distribution<double> normal(0.0, scale);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) {
      out.view().row(r)[c] = kernels::cuda::to_bf16(static_cast<float>(normal(random)));
    }
  }
  return out;
}

/// How far bf16 results may be from those in double.
inline constexpr double bf16_tolerance = 1e-2;

/// ||result - expected|| / ||expected||; infinite if a number is none, 0 for no numbers.
template <class A, class B>
[[nodiscard]] double relative_error(const A& result, const B& expected) {
  REQUIRE(result.size() == expected.size());
  double off = 0, all = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double e = static_cast<double>(expected[i]), d = static_cast<double>(result[i]) - e;
    if (!std::isfinite(d)) return INFINITY;
    off += d * d;
    all += e * e;
  }
  return off == 0 ? 0 : std::sqrt(off / all);
}

[[nodiscard]] inline double relative_error(const Bf16Rows& result, const kernels::Matrix<double>& expected) {
  const auto numbers_of = result.in_double();
  return relative_error(numbers(numbers_of), numbers(expected));
}

}  // namespace slimpack::testing
