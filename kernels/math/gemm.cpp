#include "kernels/math/gemm.hpp"

#include "kernels/math/eigen_private.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

template <class Real, class A, class B>
void assign(const MatrixView<Real>& c, const A& a, const B& b, Update update) {
  require(a.cols() == b.rows() && c.rows == static_cast<std::size_t>(a.rows()) &&
              c.cols == static_cast<std::size_t>(b.cols()),
          "product of [", a.rows(), " x ", a.cols(), "] and [", b.rows(), " x ", b.cols(),
          "] shall become a matrix of [", c.rows, " x ", c.cols, "]; expected shapes that fit");
  if (c.rows == 0 || c.cols == 0) return;
  auto out = detail::map(c);
  if (a.cols() == 0) {
    if (update == Update::set) out.setZero();
  } else if (update == Update::set) {
    out.noalias() = a * b;
  } else {
    out.noalias() += a * b;
  }
}

}  // namespace

template <class Real>
void multiply(const MatrixView<const Real>& a, const MatrixView<const Real>& b, const MatrixView<Real>& c,
              Update update) {
  assign(c, detail::map(a), detail::map(b), update);
}

template <class Real>
void multiply_transposed(const MatrixView<const Real>& a, const MatrixView<const Real>& b,
                         const MatrixView<Real>& c, Update update) {
  assign(c, detail::map(a), detail::map(b).transpose(), update);
}

template <class Real>
void transposed_multiply(const MatrixView<const Real>& a, const MatrixView<const Real>& b,
                         const MatrixView<Real>& c, Update update) {
  assign(c, detail::map(a).transpose(), detail::map(b), update);
}

#define SLIMPACK_INSTANTIATE(Real)                                                                \
  template void multiply(const MatrixView<const Real>&, const MatrixView<const Real>&,            \
                         const MatrixView<Real>&, Update);                                        \
  template void multiply_transposed(const MatrixView<const Real>&, const MatrixView<const Real>&, \
                                    const MatrixView<Real>&, Update);                             \
  template void transposed_multiply(const MatrixView<const Real>&, const MatrixView<const Real>&, \
                                    const MatrixView<Real>&, Update);
SLIMPACK_INSTANTIATE(float)
SLIMPACK_INSTANTIATE(double)

}  // namespace slimpack::kernels
