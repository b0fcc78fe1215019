#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "kernels/cuda/device/attention_backward.hpp"
#include "kernels/cuda/device/attention_forward.hpp"
#include "kernels/cuda/device/attention_key_gradient.hpp"
#include "kernels/cuda/device/attention_query_gradient.hpp"
#include "kernels/math/attention.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// An `AttentionWork` in the GPU's memory.
struct AttentionItems {
  std::span<const AttentionSlice> slices;
  std::span<const QueryItem> queries;
  std::span<const KeyItem> keys;
};

/// What attention reads.
struct AttentionInput {
  MatrixView<const Bf16> q;     ///< [tokens x heads * head_dim]
  MatrixView<const Bf16> k, v;  ///< [cache rows x kv_heads * head_dim]
};

namespace detail {

inline void require_packs(bool packs, const char* name) {
  require(packs, name, " does not lie in packs; expected begin and rows at multiples of 16 bytes");
}

inline void require_attention(const HeadShape& shape, const AttentionInput& in) {
  require(shape.kv_heads > 0 && shape.heads > 0 && shape.heads % shape.kv_heads == 0, "there are ",
          shape.heads, " heads and ", shape.kv_heads,
          " key/value heads; expected a positive multiple of a positive number");
  require(shape.head_dim == 64 || shape.head_dim == 128, "head_dim is ", shape.head_dim,
          "; expected 64 or 128");
  require(in.q.cols == shape.query_width(), "queries have ", in.q.cols, " columns; expected ",
          shape.query_width());
  require(in.k.cols == shape.kv_width() && in.v.cols == shape.kv_width() && in.k.rows == in.v.rows,
          "keys are ", in.k.rows, " x ", in.k.cols, " and values ", in.v.rows, " x ", in.v.cols,
          "; expected as many rows of ", shape.kv_width());
  require_packs(in_packs(in.q), "the queries' matrix");
  require_packs(in_packs(in.k), "the keys' matrix");
  require_packs(in_packs(in.v), "the values' matrix");
}

template <class T>
void require_per_head(const HeadShape& shape, std::size_t tokens, const MatrixView<T>& m, const char* name) {
  require(m.rows == shape.heads && m.cols == tokens, name, " are ", m.rows, " x ", m.cols, "; expected ",
          shape.heads, " x ", tokens);
}

[[nodiscard]] inline AttentionArguments arguments(const HeadShape& shape, const AttentionInput& in,
                                                  const AttentionItems& items) {
  return {.q = in.q,
          .k = in.k,
          .v = in.v,
          .slices = items.slices.data(),
          .heads = static_cast<int>(shape.heads),
          .kv_heads = static_cast<int>(shape.kv_heads),
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)))};
}

/// Starts a kernel, if there is something to do.
template <class Launch, class Kernel>
void launch_blocks(Launch&& launch, const Kernel& kernel, std::size_t blocks) {
  if (blocks > 0) launch(kernel, Grid{.blocks = blocks, .warps = Kernel::warps, .shared = Kernel::shared});
}

template <int dim, class Launch>
void attention_backward_of(Launch&& launch, const HeadShape& shape, const AttentionArguments& a,
                           const AttentionSaved& saved, const AttentionItems& items,
                           const MatrixView<Bf16>& dq, const MatrixView<float>& dk,
                           const MatrixView<float>& dv) {
  launch_blocks(launch, AttentionQueryGradientKernel<dim>{a, saved, items.queries.data(), dq},
                items.queries.size() * shape.heads);
  launch_blocks(launch, AttentionKeyGradientKernel<dim>{a, saved, items.keys.data(), dk, dv},
                items.keys.size() * shape.kv_heads);
}

}  // namespace detail

/// `attention` by any launcher; see attention.hpp.
template <class Launch>
void attention_by(Launch&& launch, const HeadShape& shape, const AttentionInput& in,
                  const AttentionItems& items, const MatrixView<Bf16>& out, const MatrixView<float>& lse) {
  detail::require_attention(shape, in);
  require(out.rows == in.q.rows && out.cols == in.q.cols, "attention's output is ", out.rows, " x ", out.cols,
          "; expected ", in.q.rows, " x ", in.q.cols);
  detail::require_packs(in_packs(out), "attention's output");
  detail::require_per_head(shape, in.q.rows, lse, "the log-sum-exps");
  const AttentionArguments a = detail::arguments(shape, in, items);
  const std::size_t blocks = items.queries.size() * shape.heads;
  if (shape.head_dim == 64) {
    detail::launch_blocks(launch, AttentionForwardKernel<64>{a, items.queries.data(), out, lse}, blocks);
  } else {
    detail::launch_blocks(launch, AttentionForwardKernel<128>{a, items.queries.data(), out, lse}, blocks);
  }
}

/// `attention_backward` by any launcher; see attention.hpp.
template <class Launch>
void attention_backward_by(Launch&& launch, const HeadShape& shape, const AttentionInput& in,
                           const AttentionItems& items, const MatrixView<const Bf16>& out,
                           const MatrixView<const float>& lse, const MatrixView<const Bf16>& dout,
                           const MatrixView<float>& delta, const MatrixView<Bf16>& dq,
                           const MatrixView<float>& dk, const MatrixView<float>& dv) {
  detail::require_attention(shape, in);
  for (const auto& m : {out, dout, MatrixView<const Bf16>(dq)}) {
    require(m.rows == in.q.rows && m.cols == in.q.cols, "attention's output, or a gradient, is ", m.rows,
            " x ", m.cols, "; expected ", in.q.rows, " x ", in.q.cols);
    detail::require_packs(in_packs(m), "attention's output, or a gradient,");
  }
  for (const auto& m : {dk, dv}) {
    require(m.rows == dk.rows && m.cols == in.k.cols, "the gradient of keys or values is ", m.rows, " x ",
            m.cols, "; expected ", dk.rows, " x ", in.k.cols);
  }
  detail::require_per_head(shape, in.q.rows, lse, "the log-sum-exps");
  detail::require_per_head(shape, in.q.rows, delta, "the deltas");
  if (items.queries.empty()) return;
  constexpr int warps = 4;
  launch(
      AttentionDeltaKernel{out, dout, static_cast<int>(shape.heads), static_cast<int>(shape.head_dim), delta},
      Grid{.blocks = blocks_for((in.q.rows * shape.heads + warps - 1) / warps), .warps = warps});
  const AttentionArguments a = detail::arguments(shape, in, items);
  const AttentionSaved saved{dout, lse, delta};
  if (shape.head_dim == 64) {
    detail::attention_backward_of<64>(launch, shape, a, saved, items, dq, dk, dv);
  } else {
    detail::attention_backward_of<128>(launch, shape, a, saved, items, dq, dk, dv);
  }
}

}  // namespace slimpack::kernels::cuda
