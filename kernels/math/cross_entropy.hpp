#pragma once

#include <cstdint>
#include <span>

#include "kernels/math/matrix.hpp"

namespace slimpack::kernels {

/// Label of a token that predicts nothing.
inline constexpr std::int32_t no_label = -1;

/// Sum of -log softmax(logits)[label] over the rows with a label. Call it for a chunk of tokens at a time.
/// @param logits [tokens x vocab] @param labels [tokens], each `no_label` or below vocab
/// @throws InvalidInput naming the first label out of range. O(tokens * vocab).
template <class Real>
[[nodiscard]] double cross_entropy(const MatrixView<const Real>& logits,
                                   std::span<const std::int32_t> labels);

/// Replaces logits by `scale` times the gradient of `cross_entropy`; rows without a label become zero.
/// @throws InvalidInput naming the first label out of range. O(tokens * vocab).
template <class Real>
void cross_entropy_backward(const MatrixView<Real>& logits, std::span<const std::int32_t> labels,
                            double scale);

}  // namespace slimpack::kernels
