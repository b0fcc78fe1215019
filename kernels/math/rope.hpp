#pragma once

#include <cstddef>
#include <span>

#include "kernels/math/matrix.hpp"
#include "kernels/math/positions.hpp"

namespace slimpack::kernels {

/// Cosines and sines of the rotary embedding's angles for some tokens: `position * theta^(-2i / head_dim)`
/// for pair i. Computed once for a pack, used by all layers and heads.
template <class Real>
class RopeTable {
 public:
  /// Fills the table for tokens at these positions, in their order. Keeps its memory.
  /// @throws InvalidInput if the head is not of a positive, even size, or theta not positive.
  /// O(tokens * head_dim).
  void set(std::span<const Positions> positions, std::size_t head_dim, double theta);

  [[nodiscard]] std::size_t tokens() const { return cos_.rows(); }
  [[nodiscard]] std::size_t head_dim() const { return 2 * cos_.cols(); }
  [[nodiscard]] const Real* cos(std::size_t token) const { return cos_.data() + token * cos_.cols(); }
  [[nodiscard]] const Real* sin(std::size_t token) const { return sin_.data() + token * sin_.cols(); }

 private:
  Matrix<Real> cos_, sin_;  ///< [tokens x head_dim / 2]
};

/// Rotates every head of each row by its token's angles: pair i of a head is its numbers i and
/// i + head_dim / 2. In place.
/// @param x [tokens x heads * head_dim] @throws InvalidInput if the table is for others. O(size of x).
template <class Real>
void rope(const RopeTable<Real>& table, const MatrixView<Real>& x);

/// The inverse rotation, which is also `rope`'s gradient. In place.
template <class Real>
void rope_backward(const RopeTable<Real>& table, const MatrixView<Real>& x);

}  // namespace slimpack::kernels
