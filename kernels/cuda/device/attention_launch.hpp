#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <type_traits>

#include "kernels/cuda/device/attention_backward.hpp"
#include "kernels/cuda/device/attention_forward.hpp"
#include "kernels/cuda/device/attention_key_gradient.hpp"
#include "kernels/cuda/device/attention_query_gradient.hpp"
#include "kernels/cuda/device/attention_wgmma_forward.hpp"
#include "kernels/cuda/device/attention_wgmma_key_gradient.hpp"
#include "kernels/cuda/device/attention_wgmma_query_gradient.hpp"
#include "kernels/math/attention.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// An `AttentionWork` in the GPU's memory.
struct AttentionItems {
  std::span<const AttentionSlice> slices;
  std::span<const QueryItem> queries;
  std::span<const KeyItem> keys;
  std::int32_t rows = attention_rows;  ///< of the work: which kernels run
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

/// Whether a launcher can describe matrices for the copy engine, which kernels of groups of warps need.
template <class Launch>
inline constexpr bool has_tensor_maps = requires(const Launch& launch, const MatrixView<const Bf16>& m) {
  launch.tensor_map(m, 0);
};

template <class Launch>
void require_block_rows(const AttentionItems& items) {
  require(items.rows != group_attention_rows || has_tensor_maps<Launch>,
          "attention's work has blocks of 128 tokens; expected 64 where there are no tensor maps");
  require(items.rows == attention_rows || items.rows == group_attention_rows,
          "attention's work has blocks of ", items.rows, " tokens; expected 64 or 128");
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

template <class Launch>
[[nodiscard]] AttentionMaps attention_maps(Launch&& launch, const AttentionArguments& a, int queries,
                                           int keys) {
  return {launch.tensor_map(a.q, queries), launch.tensor_map(a.k, keys), launch.tensor_map(a.v, keys)};
}

template <class Launch>
[[nodiscard]] AttentionBackwardMaps backward_maps(Launch&& launch, const AttentionArguments& a,
                                                  const AttentionSaved& saved, int queries, int keys) {
  return {launch.tensor_map(a.q, queries), launch.tensor_map(a.k, keys), launch.tensor_map(a.v, keys),
          launch.tensor_map(saved.dout, queries)};
}

template <int dim, class Launch>
void attention_of(Launch&& launch, const HeadShape& shape, const AttentionArguments& a,
                  const AttentionItems& items, const MatrixView<Bf16>& out, const MatrixView<float>& lse) {
  const std::size_t blocks = items.queries.size() * shape.heads;
  if constexpr (has_tensor_maps<std::remove_cvref_t<Launch>>) {
    if (items.rows == group_attention_rows) {
      using Kernel = AttentionWgmmaForwardKernel<dim>;
      const AttentionMaps maps = attention_maps(launch, a, group_attention_rows, Kernel::keys);
      return launch_blocks(launch, Kernel{a, maps, items.queries.data(), out, lse}, blocks);
    }
  }
  launch_blocks(launch, AttentionForwardKernel<dim>{a, items.queries.data(), out, lse}, blocks);
}

template <int dim, class Launch>
void attention_backward_of(Launch&& launch, const HeadShape& shape, const AttentionArguments& a,
                           const AttentionSaved& saved, const AttentionItems& items,
                           const MatrixView<Bf16>& dq, const MatrixView<float>& dk,
                           const MatrixView<float>& dv) {
  const std::size_t query_blocks = items.queries.size() * shape.heads,
                    key_blocks = items.keys.size() * shape.kv_heads;
  if constexpr (has_tensor_maps<std::remove_cvref_t<Launch>>) {
    if (items.rows == group_attention_rows) {
      using Queries = AttentionWgmmaQueryGradientKernel<dim>;
      using Keys = AttentionWgmmaKeyGradientKernel<dim>;
      launch_blocks(launch,
                    Queries{a, saved, backward_maps(launch, a, saved, group_attention_rows, Queries::keys),
                            items.queries.data(), dq},
                    query_blocks);
      launch_blocks(launch,
                    Keys{a, saved, backward_maps(launch, a, saved, Keys::queries, group_attention_rows),
                         items.keys.data(), dk, dv},
                    key_blocks);
      return;
    }
  }
  launch_blocks(launch, AttentionQueryGradientKernel<dim>{a, saved, items.queries.data(), dq}, query_blocks);
  launch_blocks(launch, AttentionKeyGradientKernel<dim>{a, saved, items.keys.data(), dk, dv}, key_blocks);
}

}  // namespace detail

/// `attention` by any launcher; see attention.hpp.
template <class Launch>
void attention_by(Launch&& launch, const HeadShape& shape, const AttentionInput& in,
                  const AttentionItems& items, const MatrixView<Bf16>& out, const MatrixView<float>& lse) {
  detail::require_attention(shape, in);
  detail::require_block_rows<std::remove_cvref_t<Launch>>(items);
  require(out.rows == in.q.rows && out.cols == in.q.cols, "attention's output is ", out.rows, " x ", out.cols,
          "; expected ", in.q.rows, " x ", in.q.cols);
  detail::require_packs(in_packs(out), "attention's output");
  detail::require_per_head(shape, in.q.rows, lse, "the log-sum-exps");
  if (items.queries.empty()) return;
  const AttentionArguments a = detail::arguments(shape, in, items);
  if (shape.head_dim == 64) {
    detail::attention_of<64>(launch, shape, a, items, out, lse);
  } else {
    detail::attention_of<128>(launch, shape, a, items, out, lse);
  }
}

/// Row sums of output times output gradient, per head, which `attention_gradients_by` takes.
/// @param out, dout [tokens x heads * head_dim] @param delta [heads x tokens]; is set
template <class Launch>
void attention_delta_by(Launch&& launch, const HeadShape& shape, const MatrixView<const Bf16>& out,
                        const MatrixView<const Bf16>& dout, const MatrixView<float>& delta) {
  require(out.rows == dout.rows && out.cols == shape.query_width() && dout.cols == shape.query_width(),
          "attention's output is ", out.rows, " x ", out.cols, ", its gradient ", dout.rows, " x ", dout.cols,
          "; expected both to have as many rows of ", shape.query_width());
  detail::require_per_head(shape, out.rows, delta, "the deltas");
  require(shape.head_dim == 64 || shape.head_dim == 128, "head_dim is ", shape.head_dim,
          "; expected 64 or 128");
  detail::require_packs(in_packs(out) && in_packs(dout), "attention's output, or its gradient,");
  if (out.rows == 0) return;
  launch(
      AttentionDeltaKernel{out, dout, static_cast<int>(shape.heads), static_cast<int>(shape.head_dim), delta},
      warp_per_row(out.rows));
}

/// `attention_backward` of the deltas, which take the output's place, by any launcher; see attention.hpp.
template <class Launch>
void attention_gradients_by(Launch&& launch, const HeadShape& shape, const AttentionInput& in,
                            const AttentionItems& items, const MatrixView<const float>& lse,
                            const MatrixView<const Bf16>& dout, const MatrixView<const float>& delta,
                            const MatrixView<Bf16>& dq, const MatrixView<float>& dk,
                            const MatrixView<float>& dv) {
  detail::require_attention(shape, in);
  detail::require_block_rows<std::remove_cvref_t<Launch>>(items);
  for (const auto& m : {dout, MatrixView<const Bf16>(dq)}) {
    require(m.rows == in.q.rows && m.cols == in.q.cols, "a gradient of attention is ", m.rows, " x ", m.cols,
            "; expected ", in.q.rows, " x ", in.q.cols);
    detail::require_packs(in_packs(m), "a gradient of attention");
  }
  for (const auto& m : {dk, dv}) {
    require(m.rows == dk.rows && m.cols == in.k.cols, "the gradient of keys or values is ", m.rows, " x ",
            m.cols, "; expected ", dk.rows, " x ", in.k.cols);
  }
  detail::require_per_head(shape, in.q.rows, lse, "the log-sum-exps");
  detail::require_per_head(shape, in.q.rows, delta, "the deltas");
  if (items.queries.empty()) return;
  const AttentionArguments a = detail::arguments(shape, in, items);
  const AttentionSaved saved{dout, lse, delta};
  if (shape.head_dim == 64) {
    detail::attention_backward_of<64>(launch, shape, a, saved, items, dq, dk, dv);
  } else {
    detail::attention_backward_of<128>(launch, shape, a, saved, items, dq, dk, dv);
  }
}

/// `attention_backward` by any launcher; see attention.hpp.
template <class Launch>
void attention_backward_by(Launch&& launch, const HeadShape& shape, const AttentionInput& in,
                           const AttentionItems& items, const MatrixView<const Bf16>& out,
                           const MatrixView<const float>& lse, const MatrixView<const Bf16>& dout,
                           const MatrixView<float>& delta, const MatrixView<Bf16>& dq,
                           const MatrixView<float>& dk, const MatrixView<float>& dv) {
  attention_delta_by(launch, shape, out, dout, delta);
  attention_gradients_by(launch, shape, in, items, lse, dout, MatrixView<const float>(delta), dq, dk, dv);
}

}  // namespace slimpack::kernels::cuda
