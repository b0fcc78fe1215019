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

/// What a part of the vocabulary says of rows. @param first token of the part. @param scores [tokens x 3], set: the largest
/// logit, the sum of exp(logit - largest), and the label's logit if it is of this part, or else 0.
/// @param logits [tokens x vocabulary of the part] @throws InvalidInput if there are not as many labels. O(tokens * vocab).
template <class Real>
void vocabulary_scores(const MatrixView<const Real>& logits, std::span<const std::int32_t> labels,
                       std::size_t first, const MatrixView<Real>& scores);

/// `cross_entropy` of all parts of the vocabulary together. Sums are formed in the order of the parts.
/// @param scores [part * tokens + token] of each; the first part's first number becomes the row's log-sum-exp.
template <class Real>
[[nodiscard]] double combined_cross_entropy(const MatrixView<Real>& scores,
                                            std::span<const std::int32_t> labels);

/// `cross_entropy_backward` of a part of the vocabulary. @param first token of the part.
/// @param lse rows that begin with the log-sum-exp over all parts.
template <class Real>
void cross_entropy_backward(const MatrixView<Real>& logits, std::span<const std::int32_t> labels,
                            std::size_t first, const MatrixView<const Real>& lse, double scale);

}  // namespace slimpack::kernels
