#pragma once

#include "kernels/math/matrix.hpp"

namespace slimpack::kernels {

/// Whether a result replaces what is there, or is added to it.
enum class Update { set, add };

/// c = a b, or c += a b. c must not overlap a or b.
/// @param a [m x k] @param b [k x n] @param c [m x n]
/// @throws InvalidInput naming the shapes if they don't fit. O(m n k).
template <class Real>
void multiply(const MatrixView<const Real>& a, const MatrixView<const Real>& b, const MatrixView<Real>& c,
              Update update = Update::set);

/// c = a b^T, or c += a b^T: with b a weight, the gradient of the input.
/// @param a [m x k] @param b [n x k] @param c [m x n]
/// @throws InvalidInput naming the shapes if they don't fit. O(m n k).
template <class Real>
void multiply_transposed(const MatrixView<const Real>& a, const MatrixView<const Real>& b,
                         const MatrixView<Real>& c, Update update = Update::set);

/// c = a^T b, or c += a^T b: with a the input and b the output's gradient, the gradient of a weight.
/// @param a [k x m] @param b [k x n] @param c [m x n]
/// @throws InvalidInput naming the shapes if they don't fit. O(m n k).
template <class Real>
void transposed_multiply(const MatrixView<const Real>& a, const MatrixView<const Real>& b,
                         const MatrixView<Real>& c, Update update = Update::set);

}  // namespace slimpack::kernels
