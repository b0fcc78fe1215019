#include "kernels/math/rms_norm.hpp"

#include <cmath>
#include <cstddef>

#include "kernels/math/eigen_private.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

template <class Row>
[[nodiscard]] auto inverse_rms(const Row& x, double epsilon) {
  using Real = typename Row::Scalar;
  return Real{1} / std::sqrt(x.square().mean() + static_cast<Real>(epsilon));
}

template <class A, class B>
void require_equal(const A& x, const B& y, std::size_t weights) {
  require(x.rows == y.rows && x.cols == y.cols && x.cols == weights, "norm of [", x.rows, " x ", x.cols,
          "] with ", weights, " weights and a matrix of [", y.rows, " x ", y.cols,
          "]; expected equal shapes and a weight for each column");
}

}  // namespace

template <class Real>
void rms_norm(const MatrixView<const Real>& x, std::span<const Real> weight, double epsilon,
              const MatrixView<Real>& y) {
  require_equal(x, y, weight.size());
  const auto w = detail::array(weight.data(), weight.size());
  for (std::size_t t = 0; t < x.rows; ++t) {
    const auto in = detail::array(x.row(t), x.cols);
    detail::array(y.row(t), y.cols) = in * w * inverse_rms(in, epsilon);
  }
}

template <class Real>
void rms_norm_backward(const MatrixView<const Real>& x, std::span<const Real> weight, double epsilon,
                       const MatrixView<const Real>& dy, const MatrixView<Real>& dx,
                       std::span<Real> dweight) {
  require_equal(x, dy, weight.size());
  require_equal(x, dx, dweight.size());
  const auto w = detail::array(weight.data(), weight.size());
  auto dw = detail::array(dweight.data(), dweight.size());
  for (std::size_t t = 0; t < x.rows; ++t) {
    const auto in = detail::array(x.row(t), x.cols);
    const auto out = detail::array(dy.row(t), dy.cols);
    const Real inverse = inverse_rms(in, epsilon);
    const Real along = (w * out * in).sum() * inverse * inverse * inverse / static_cast<Real>(x.cols);
    detail::array(dx.row(t), dx.cols) += w * out * inverse - in * along;
    dw += out * in * inverse;
  }
}

#define SLIMPACK_INSTANTIATE(Real)                                                              \
  template void rms_norm(const MatrixView<const Real>&, std::span<const Real>, double,          \
                         const MatrixView<Real>&);                                              \
  template void rms_norm_backward(const MatrixView<const Real>&, std::span<const Real>, double, \
                                  const MatrixView<const Real>&, const MatrixView<Real>&, std::span<Real>);
SLIMPACK_INSTANTIATE(float)
SLIMPACK_INSTANTIATE(double)

}  // namespace slimpack::kernels
