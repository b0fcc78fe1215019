#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/math/aligned.hpp"

namespace slimpack::kernels {

/// Rows of numbers that the caller owns: row r begins at `data + r * stride`. `T` is `Real` or `const
/// Real`.
template <class T>
struct MatrixView {
  T* data = nullptr;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t stride = 0;  ///< numbers from the beginning of one row to that of the next; at least `cols`

  MatrixView() = default;
  MatrixView(T* data_, std::size_t rows_, std::size_t cols_, std::size_t stride_)
      : data(data_), rows(rows_), cols(cols_), stride(stride_) {}
  MatrixView(T* data_, std::size_t rows_, std::size_t cols_) : MatrixView(data_, rows_, cols_, cols_) {}

  /// A view for writing is one for reading.
  template <class U>
    requires(std::is_same_v<T, const U> && !std::is_const_v<U>)
  MatrixView(const MatrixView<U>& other) : MatrixView(other.data, other.rows, other.cols, other.stride) {}

  [[nodiscard]] T* row(std::size_t r) const { return data + r * stride; }

  /// `count` rows from row `first` on.
  [[nodiscard]] MatrixView middle_rows(std::size_t first, std::size_t count) const {
    return {row(first), count, cols, stride};
  }

  /// `count` columns from column `first` on.
  [[nodiscard]] MatrixView middle_cols(std::size_t first, std::size_t count) const {
    return {rows > 0 ? data + first : data, rows, count, stride};
  }
};

/// Consecutive rows of numbers.
template <class Real>
class Matrix {
 public:
  Matrix() = default;
  Matrix(std::size_t rows, std::size_t cols) { resize(rows, cols); }

  /// Keeps the memory if it suffices; the numbers are then unspecified.
  void resize(std::size_t rows, std::size_t cols) {
    rows_ = rows;
    cols_ = cols;
    if (data_.size() >= rows * cols) return;
    AlignedVector<Real>().swap(data_);  // otherwise both would exist while one is copied into the other
    data_.resize(rows * cols);
  }

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t cols() const { return cols_; }
  [[nodiscard]] Real* data() { return data_.data(); }
  [[nodiscard]] const Real* data() const { return data_.data(); }
  [[nodiscard]] MatrixView<Real> view() { return {data_.data(), rows_, cols_}; }
  [[nodiscard]] MatrixView<const Real> view() const { return {data_.data(), rows_, cols_}; }

 private:
  AlignedVector<Real> data_;
  std::size_t rows_ = 0, cols_ = 0;
};

}  // namespace slimpack::kernels
