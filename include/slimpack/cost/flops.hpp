#pragma once

#include <span>

#include "slimpack/core/flops.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/model/transformer.hpp"

namespace slimpack {

/// FLOPs of the dense products of one layer, per token, forward: QKV and output projections and the gated
/// MLP.
[[nodiscard]] constexpr double linear_flops_per_token(const Transformer& m) {
  const double h = m.hidden, q = double(m.heads) * m.head_dim, kv = double(m.kv_heads) * m.head_dim;
  return 2 * h * (q + 2 * kv) + 2 * q * h + 6 * h * m.ffn;
}

/// FLOPs of one layer's attention, forward, per unit of `twice_causal_pairs`.
[[nodiscard]] constexpr double attention_flops_per_twice_pair(const Transformer& m) {
  return 2.0 * m.heads * m.head_dim;
}

/// Numbers that one layer's memory-bound operators read and write per token, forward: norms, residuals, rotary
/// embedding and SwiGLU.
[[nodiscard]] constexpr double streamed_numbers_per_token(const Transformer& m) {
  return 10.0 * m.hidden + 2.0 * m.head_dim * (m.heads + m.kv_heads) + 3.0 * m.ffn;
}

/// Backward FLOPs over forward FLOPs: dense products need gradients of inputs and of weights; attention
/// recomputes its scores (SlimPack, section 2.2.2).
inline constexpr double backward_linear_ratio = 2.0;
inline constexpr double backward_attention_ratio = 2.5;

/// FLOPs of one layer for tokens `[begin, end)` of a sample, 0 <= begin <= end, without recomputation.
[[nodiscard]] constexpr Flops slice_flops(const Transformer& m, Tokens begin, Tokens end, Pass pass) {
  const Flops forward{static_cast<double>(end - begin) * linear_flops_per_token(m),
                      attention_flops_per_twice_pair(m) * twice_causal_pairs(begin, end)};
  if (pass == Pass::forward) return forward;
  return {backward_linear_ratio * forward.linear, backward_attention_ratio * forward.attention};
}

/// FLOPs of one layer for all slices of a pack.
[[nodiscard]] inline Flops pack_flops(const Transformer& m, std::span<const Slice> pack, Pass pass) {
  Flops sum;
  for (const Slice& slice : pack) sum += slice_flops(m, slice.begin, slice.end, pass);
  return sum;
}

}  // namespace slimpack
