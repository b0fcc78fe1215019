#include "kernels/math/rope.hpp"

#include <cmath>
#include <cstddef>
#include <vector>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

template <class Real>
void rotate(const RopeTable<Real>& table, const MatrixView<Real>& x, Real direction) {
  const std::size_t dim = table.head_dim(), half = dim / 2;
  require(x.rows == table.tokens() && (x.rows == 0 || x.cols % dim == 0), "rotary embedding of [", x.rows,
          " x ", x.cols, "] by a table of ", table.tokens(), " tokens with heads of ", dim,
          "; expected as many rows and whole heads");
  for (std::size_t t = 0; t < x.rows; ++t) {
    const Real* c = table.cos(t);
    const Real* s = table.sin(t);
    for (Real* head = x.row(t); head != x.row(t) + x.cols; head += dim) {
      Real* low = head;
      Real* high = head + half;
      for (std::size_t i = 0; i < half; ++i) {
        const Real a = low[i], b = high[i], sine = direction * s[i];
        low[i] = a * c[i] - b * sine;
        high[i] = b * c[i] + a * sine;
      }
    }
  }
}

}  // namespace

template <class Real>
void RopeTable<Real>::set(std::span<const Positions> positions, std::size_t head_dim, double theta) {
  require(head_dim > 0 && head_dim % 2 == 0, "head_dim is ", head_dim, "; expected a positive even number");
  require(theta > 0, "theta is ", theta, "; expected a positive number");
  const std::size_t half = head_dim / 2;
  std::vector<double> frequency(half);
  for (std::size_t i = 0; i < half; ++i) {
    frequency[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
  }
  cos_.resize(count(positions), half);
  sin_.resize(cos_.rows(), half);
  std::size_t at = 0;
  for (const Positions& range : positions) {
    for (Tokens position = range.begin; position < range.end; ++position) {
      for (std::size_t i = 0; i < half; ++i, ++at) {
        const double angle = static_cast<double>(position) * frequency[i];
        cos_.data()[at] = static_cast<Real>(std::cos(angle));
        sin_.data()[at] = static_cast<Real>(std::sin(angle));
      }
    }
  }
}

template <class Real>
void rope(const RopeTable<Real>& table, const MatrixView<Real>& x) {
  rotate(table, x, Real{1});
}

template <class Real>
void rope_backward(const RopeTable<Real>& table, const MatrixView<Real>& x) {
  rotate(table, x, Real{-1});
}

#define SLIMPACK_INSTANTIATE(Real)                                     \
  template class RopeTable<Real>;                                      \
  template void rope(const RopeTable<Real>&, const MatrixView<Real>&); \
  template void rope_backward(const RopeTable<Real>&, const MatrixView<Real>&);
SLIMPACK_INSTANTIATE(float)
SLIMPACK_INSTANTIATE(double)

}  // namespace slimpack::kernels
