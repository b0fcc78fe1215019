#pragma once

#include "kernels/math/matrix.hpp"

namespace slimpack::kernels {

/// Gated activation of an MLP: out = gate * sigmoid(gate) * up.
/// @param gate_up [tokens x 2 ffn]: of each row, the gate and then up. @param out [tokens x ffn]
/// @throws InvalidInput if shapes don't fit. O(tokens * ffn).
template <class Real>
void swiglu(const MatrixView<const Real>& gate_up, const MatrixView<Real>& out);

/// Gradient of `swiglu`, from its input.
/// @param gate_up, dgate_up [tokens x 2 ffn]; they may be the same. @param dout [tokens x ffn]
/// @throws InvalidInput if shapes don't fit. O(tokens * ffn).
template <class Real>
void swiglu_backward(const MatrixView<const Real>& gate_up, const MatrixView<const Real>& dout,
                     const MatrixView<Real>& dgate_up);

}  // namespace slimpack::kernels
