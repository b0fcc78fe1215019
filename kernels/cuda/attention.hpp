#pragma once

#include <cstdint>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_launch.hpp"
#include "kernels/cuda/portable.hpp"
#include "kernels/math/attention.hpp"
#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::cuda {

/// Tokens of a block with which attention is fastest on the current GPU: 128 on Hopper, where it multiplies by
/// `wgmma`, if the library has code for it; otherwise 64, by `mma.sync`, which every GPU can.
/// @throws std::runtime_error without a GPU.
[[nodiscard]] std::int32_t best_attention_rows();

/// From now on `best_attention_rows` is 64 in this process, also where it would be 128: to compare, or should kernels by
/// `wgmma` fail.
void use_mma_sync_alone();

/// Causal attention of a pack of slices, each with its sample's prefix in a cache of keys and values, with
/// grouped heads and without padding. A token sees the keys of its sample up to its own place. Rows that
/// belong to no slice are left as they are. All data lies in the GPU's memory; nothing waits for the work.
/// @param items of `attention_work`, whose rows the caller has not changed since; `rows` are those of the work
/// @param out [tokens x heads * head_dim] @param lse [heads x tokens], the log-sum-exp of the scaled scores
/// @throws InvalidInput if shapes don't fit, rows don't begin at multiples of 16 bytes, or head_dim is neither
/// 64 nor 128, or the GPU or the build has no kernels for blocks of that many tokens; std::runtime_error if the GPU refuses.
/// O(pairs of query and visible key * heads * head_dim).
void attention(const HeadShape& shape, const AttentionInput& in, const AttentionItems& items,
               const MatrixView<Bf16>& out, const MatrixView<float>& lse, Stream stream);

/// Gradients of `attention`, of the same bits at each call: **sets** those of the queries, and **adds** those of
/// keys and values, in float, since later packs see the same keys.
/// @param out, lse of forward @param dout [tokens x heads * head_dim] @param delta [heads x tokens], workspace
/// @param dq [tokens x heads * head_dim] @param dk, dv [rows x kv_heads * head_dim], as many rows as the cache or, where
/// the work's gradients stand in pieces, as these take
/// @throws as `attention`. O(pairs of query and visible key * heads * head_dim).
void attention_backward(const HeadShape& shape, const AttentionInput& in, const AttentionItems& items,
                        const MatrixView<const Bf16>& out, const MatrixView<const float>& lse,
                        const MatrixView<const Bf16>& dout, const MatrixView<float>& delta,
                        const MatrixView<Bf16>& dq, const MatrixView<float>& dk, const MatrixView<float>& dv,
                        Stream stream);

}  // namespace slimpack::kernels::cuda
