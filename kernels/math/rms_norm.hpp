#pragma once

#include <span>

#include "kernels/math/matrix.hpp"

namespace slimpack::kernels {

/// Root-mean-square norm of each row: y_i = w_i x_i / sqrt(mean(x^2) + epsilon).
/// @param x, y [tokens x hidden]; y may be x. @param weight [hidden]
/// @throws InvalidInput if shapes differ. O(tokens * hidden).
template <class Real>
void rms_norm(const MatrixView<const Real>& x, std::span<const Real> weight, double epsilon,
              const MatrixView<Real>& y);

/// Gradients of `rms_norm`, from its input; **adds** them to `dx` and `dweight`.
/// @param x, dy, dx [tokens x hidden] @param weight, dweight [hidden]
/// @throws InvalidInput if shapes differ. O(tokens * hidden).
template <class Real>
void rms_norm_backward(const MatrixView<const Real>& x, std::span<const Real> weight, double epsilon,
                       const MatrixView<const Real>& dy, const MatrixView<Real>& dx, std::span<Real> dweight);

}  // namespace slimpack::kernels
