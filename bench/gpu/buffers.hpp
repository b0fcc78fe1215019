#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kernels/cuda/portable.hpp"
#include "kernels/cuda/runtime.hpp"
#include "kernels/math/matrix.hpp"

// Rows in the GPU's memory and on the host, for the program that checks and times the kernels.
namespace slimpack::bench {

namespace cuda = kernels::cuda;

[[nodiscard]] inline double in_double(cuda::Bf16 x) { return static_cast<double>(cuda::to_float(x)); }
[[nodiscard]] inline double in_double(float x) { return static_cast<double>(x); }

/// Numbers in the GPU's memory that begin as no numbers: what a kernel leaves out shows.
template <class T>
class Numbers {
 public:
  explicit Numbers(std::size_t n) : memory_(n * sizeof(T)), size_(n) { fill(0xff); }
  explicit Numbers(std::span<const T> from) : Numbers(from.size()) { set(from); }

  // What streams do later does not wait for the default one, so the host does.
  void set(std::span<const T> from) {
    cuda::upload(from, span(), nullptr);
    cuda::wait_for_device();
  }
  void fill(unsigned char byte) {
    cuda::fill_bytes(memory_.bytes(), byte, nullptr);
    cuda::wait_for_device();
  }
  [[nodiscard]] std::span<T> span() const { return {reinterpret_cast<T*>(memory_.bytes().data()), size_}; }
  /// Waits for the GPU.
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> out(size_);
    cuda::copy_bytes(out.data(), memory_.bytes().data(), size_ * sizeof(T), nullptr);
    return out;
  }

 private:
  cuda::DeviceMemory memory_;
  std::size_t size_;
};

/// Rows of it.
template <class T>
class Rows {
 public:
  Rows(std::size_t rows, std::size_t cols) : numbers_(rows * cols), rows_(rows), cols_(cols) {}
  Rows(std::span<const T> from, std::size_t rows, std::size_t cols)
      : numbers_(from), rows_(rows), cols_(cols) {}

  void fill(unsigned char byte) { numbers_.fill(byte); }
  [[nodiscard]] kernels::MatrixView<T> view() const { return {numbers_.span().data(), rows_, cols_}; }
  [[nodiscard]] kernels::MatrixView<const T> in() const { return view(); }
  [[nodiscard]] std::span<T> span() const { return numbers_.span(); }
  [[nodiscard]] std::vector<T> read() const { return numbers_.read(); }

 private:
  Numbers<T> numbers_;
  std::size_t rows_, cols_;
};

[[nodiscard]] inline std::vector<cuda::Bf16> random_bf16(std::mt19937& random, std::size_t n,
                                                         double scale = 1.0) {
  std::normal_distribution<double> normal(0.0, scale);
  std::vector<cuda::Bf16> out(n);
  for (auto& x : out) x = cuda::to_bf16(static_cast<float>(normal(random)));
  return out;
}

/// The same numbers over and over, for large inputs to time.
[[nodiscard]] inline Rows<cuda::Bf16> random_rows(std::mt19937& random, std::size_t rows, std::size_t cols) {
  const auto some = random_bf16(random, std::min<std::size_t>(rows * cols, std::size_t{1} << 20U));
  std::vector<cuda::Bf16> all(rows * cols);
  for (std::size_t i = 0; i < all.size(); i += some.size()) {
    std::copy_n(some.begin(), std::min(some.size(), all.size() - i),
                all.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return {all, rows, cols};
}

template <class T>
[[nodiscard]] kernels::Matrix<double> matrix(const std::vector<T>& from, std::size_t rows, std::size_t cols) {
  kernels::Matrix<double> out(rows, cols);
  for (std::size_t i = 0; i < rows * cols; ++i) out.data()[i] = in_double(from[i]);
  return out;
}

/// ||result - expected|| / ||expected||; infinite if a number is none.
template <class T>
[[nodiscard]] double relative_error(const std::vector<T>& result, std::span<const double> expected) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double d = in_double(result[i]) - expected[i];
    if (!std::isfinite(d)) return INFINITY;
    off += d * d;
    all += expected[i] * expected[i];
  }
  return off == 0 ? 0 : std::sqrt(off / all);
}

template <class T>
[[nodiscard]] double relative_error(const std::vector<T>& result, const kernels::Matrix<double>& expected) {
  return relative_error(result, std::span(expected.data(), expected.rows() * expected.cols()));
}

}  // namespace slimpack::bench
