#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace slimpack::detail {

/// The coefficients of a linear program's dictionary: how each basic variable, and the cost, follow the nonbasic
/// variables.
class SimplexTable {
 public:
  /// No basic variable yet. @param cost of each nonbasic variable.
  explicit SimplexTable(std::span<const double> cost)
      : columns_(cost.size()), stride_((columns_ + 3) / 4 * 4), reduced_(cost.begin(), cost.end()) {
    reduced_.resize(stride_, 0.0);
  }

  [[nodiscard]] std::size_t rows() const { return weight_.size(); }
  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] std::span<const double> row(std::size_t r) const {
    return {rows_.data() + r * stride_, columns_};
  }
  [[nodiscard]] double at(std::size_t r, std::size_t q) const { return rows_[r * stride_ + q]; }
  /// Cost of one unit of each nonbasic variable.
  [[nodiscard]] std::span<const double> reduced_costs() const { return {reduced_.data(), columns_}; }
  [[nodiscard]] std::span<double> reduced_costs() { return {reduced_.data(), columns_}; }
  /// 1 + the sum of squares of a row.
  [[nodiscard]] double weight(std::size_t r) const { return weight_[r]; }

  /// Adds a row. @param fill is given it as zeros.
  template <class Fill>
  void add_row(Fill&& fill) {
    const std::size_t r = rows();
    rows_.resize((r + 1) * stride_, 0.0);
    weight_.push_back(1.0);
    fill(std::span<double>(row_of(r), columns_));
    weigh(r);
  }

  /// The last row takes the place of row `r`.
  void drop_row(std::size_t r) {
    const std::size_t last = rows() - 1;
    if (r != last) {
      std::copy_n(row_of(last), stride_, row_of(r));
      weight_[r] = weight_[last];
    }
    rows_.resize(last * stride_);
    weight_.pop_back();
  }

  /// Row `r`'s basic variable and nonbasic variable `q` change places. @pre at(r, q) != 0.
  void pivot(std::size_t r, std::size_t q) {
    // basic = ... + e nonbasic becomes nonbasic = ... + basic / e.
    double* const row = row_of(r);
    const double inverse = 1.0 / row[q];
    row[q] = -1.0;
    for (std::size_t k = 0; k < columns_; ++k) row[k] *= -inverse;
    weigh(r);
    for (std::size_t i = 0; i < rows(); ++i) {
      double* const other = row_of(i);
      if (i != r && other[q] != 0.0) weight_[i] = 1.0 + add_multiple(other, row, q);
    }
    add_multiple(reduced_.data(), row, q);
  }

 private:
  // Rows are padded with zeros to a multiple of 4, which compilers turn into vector instructions.
  [[nodiscard]] double* row_of(std::size_t r) { return rows_.data() + r * stride_; }

  void weigh(std::size_t r) {
    double square = 0.0;
    for (const double each : row(r)) square += each * each;
    weight_[r] = 1.0 + square;
  }

  /// Substitutes the nonbasic variable `q` of a row by the pivot row; returns the sum of squares.
  double add_multiple(double* __restrict other, const double* __restrict row, std::size_t q) const {
    const double factor = other[q];
    other[q] = 0.0;
    double square0 = 0.0, square1 = 0.0, square2 = 0.0, square3 = 0.0;
    for (std::size_t k = 0; k < stride_; k += 4) {
      const double a = other[k] + factor * row[k], b = other[k + 1] + factor * row[k + 1];
      const double c = other[k + 2] + factor * row[k + 2], d = other[k + 3] + factor * row[k + 3];
      other[k] = a;
      other[k + 1] = b;
      other[k + 2] = c;
      other[k + 3] = d;
      square0 += a * a;
      square1 += b * b;
      square2 += c * c;
      square3 += d * d;
    }
    return square0 + square1 + square2 + square3;
  }

  std::size_t columns_, stride_;
  std::vector<double> rows_;     // [basic][nonbasic]
  std::vector<double> reduced_;  // [nonbasic]
  std::vector<double> weight_;   // [basic]
};

}  // namespace slimpack::detail
