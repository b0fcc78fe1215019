#include "kernels/math/swiglu.hpp"

#include <algorithm>
#include <cstddef>

#include "kernels/math/eigen_private.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

template <class A, class B>
void require_fit(const A& gate_up, const B& out) {
  require(gate_up.rows == out.rows && gate_up.cols == 2 * out.cols, "gate and up are [", gate_up.rows, " x ",
          gate_up.cols, "] and the result [", out.rows, " x ", out.cols, "]; expected twice as many columns");
}

}  // namespace

template <class Real>
void swiglu(const MatrixView<const Real>& gate_up, const MatrixView<Real>& out) {
  require_fit(gate_up, out);
  for (std::size_t t = 0; t < out.rows; ++t) {
    const auto gate = detail::array(gate_up.row(t), out.cols);
    const auto up = detail::array(gate_up.row(t) + out.cols, out.cols);
    detail::array(out.row(t), out.cols) = gate * up / (Real{1} + (-gate).exp());
  }
}

template <class Real>
void swiglu_backward(const MatrixView<const Real>& gate_up, const MatrixView<const Real>& dout,
                     const MatrixView<Real>& dgate_up) {
  require_fit(gate_up, dout);
  require_fit(dgate_up, dout);
  // Blocks that stay in the first-level cache between the three expressions.
  constexpr std::size_t block = 256;
  Eigen::Array<Real, static_cast<int>(block), 1> sigmoid_block, gate_block, up_block;
  for (std::size_t t = 0; t < dout.rows; ++t) {
    for (std::size_t c = 0; c < dout.cols; c += block) {
      const std::size_t size = std::min(block, dout.cols - c);
      const auto n = static_cast<detail::Index>(size);
      auto sigmoid = sigmoid_block.head(n), gate = gate_block.head(n), up = up_block.head(n);
      gate = detail::array(gate_up.row(t) + c, size);
      up = detail::array(gate_up.row(t) + dout.cols + c, size);
      const auto out = detail::array(dout.row(t) + c, size);
      sigmoid = Real{1} / (Real{1} + (-gate).exp());
      detail::array(dgate_up.row(t) + c, size) = out * up * sigmoid * (Real{1} + gate * (Real{1} - sigmoid));
      detail::array(dgate_up.row(t) + dout.cols + c, size) = out * gate * sigmoid;
    }
  }
}

#define SLIMPACK_INSTANTIATE(Real)                                                            \
  template void swiglu(const MatrixView<const Real>&, const MatrixView<Real>&);               \
  template void swiglu_backward(const MatrixView<const Real>&, const MatrixView<const Real>&, \
                                const MatrixView<Real>&);
SLIMPACK_INSTANTIATE(float)
SLIMPACK_INSTANTIATE(double)

}  // namespace slimpack::kernels
