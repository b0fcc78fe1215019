#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "kernels/cuda/arena.hpp"
#include "kernels/cuda/device/cross_entropy.hpp"
#include "kernels/cuda/device/rms_norm.hpp"
#include "kernels/cuda/portable.hpp"
#include "kernels/cuda/ring_plan.hpp"
#include "kernels/math/matrix.hpp"
#include "kernels/model/stage_options.hpp"
#include "kernels/model/weights.hpp"
#include "slimpack/core/ids.hpp"

namespace slimpack::kernels::cuda {

/// A task that pipelines run together; one member otherwise.
struct MergedTask {
  std::size_t members = 1;
  std::size_t tokens = 0;  ///< of all of them
  MergedAttention merged = MergedAttention::heads;
  std::size_t ring_rows = 0;  ///< in a ring: most of a window that a member holds
};

/// Of a task of a step. @param block tokens of a chunk of merged samples.
[[nodiscard]] inline MergedTask merged_task(const StageTask& task, const StageOptions& options,
                                            Tokens block) {
  const MergedAttention merged = task.merged() ? merged_attention(task, options.merged) : options.merged;
  const bool ring = task.merged() && merged == MergedAttention::ring;
  return {task.members.size(), static_cast<std::size_t>(task.tokens), merged,
          ring ? most_ring_rows(task, options.ring_tokens, block) : 0};
}

/// Bytes that a stage holds for a library's attention.
[[nodiscard]] inline std::size_t attention_workspace_bytes(const StageOptions& options) {
  return options.attention == AttentionChoice::ours ? 0 : options.attention_workspace;
}

/// What a task of a stage computes with on a GPU, in addition to weights, stores, and the rows that come and
/// go (x forward, dx backward). Rows are the task's tokens; all layers use the same matrices, and all tasks
/// the same memory.
struct StageWorkspace {
  // Both passes.
  MatrixView<Bf16> normed;        ///< [hidden]
  MatrixView<Bf16> attention;     ///< its output [heads * head_dim]
  MatrixView<float> lse;          ///< [heads x tokens]
  MatrixView<Bf16> gate_up, act;  ///< [2 ffn], [ffn]
  MatrixView<Bf16> logits;        ///< of a chunk of tokens [vocab]; last stage only
  std::span<LogitState> states;   ///< of a chunk's tokens; last stage only
  std::span<float> rope;          ///< [tokens x head_dim]
  // Forward.
  MatrixView<Bf16> qkv;  ///< [(heads + 2 kv_heads) * head_dim]
  // Backward.
  MatrixView<Bf16> x, middle;  ///< the residual stream before a layer, and between attention and MLP [hidden]
  MatrixView<Bf16> q;          ///< [heads * head_dim]
  MatrixView<Bf16> dnormed, dqkv, dattention, dact;
  MatrixView<float> delta;  ///< [heads x tokens]
  std::span<float> norm;    ///< of the norm's gradient
  // Merged by heads: rows are all members' tokens, of this one's heads.
  MatrixView<Bf16> head_q, head_kv, head_out;  ///< queries; keys and values, or their gradients; outputs
  MatrixView<float> head_lse;                  ///< [heads x tokens]
  MatrixView<Bf16> head_dq, head_dout;         ///< backward
  MatrixView<float> head_delta;                ///< backward
  std::span<Bf16> sent, received;              ///< what goes to members and comes from them

  // Merged in a ring: rows are the task's own tokens, of all heads.
  MatrixView<Bf16> ring_part;  ///< attention to what came round, or the queries' gradients [heads * head_dim]
  MatrixView<float> ring_lse;  ///< of it [heads x tokens]
  MatrixView<float> ring_sum;  ///< of the parts [heads * head_dim]
  std::array<MatrixView<Bf16>, 3> ring_keys;   ///< keys and values of a window [2 kv_heads * head_dim]
  std::array<MatrixView<float>, 2> ring_made;  ///< backward: their gradients [2 kv_heads * head_dim]
  MatrixView<float> ring_came;                 ///< backward: other members' of own keys and values

  /// Lays everything out consecutively. @param chunk most tokens whose logits exist at a time. @param at
  /// where, beginning at a multiple of `arena_alignment`; nullptr to learn the size. @returns bytes in all.
  std::size_t lay_out(const StagePart& part, std::size_t chunk, Pass pass, std::size_t tokens,
                      const MergedTask& merged, std::byte* at);
};

/// Memory for what goes to a merged task's members at a time, or comes from them, at most, in bf16 numbers.
/// @param tokens that this one has.
[[nodiscard]] inline std::size_t exchange_numbers(const StagePart& part, Pass pass, std::size_t tokens,
                                                  const MergedTask& merged) {
  const HeadShape heads = part.heads();
  if (merged.merged == MergedAttention::ring) {  // keys and values, or their gradients, which are floats
    const std::size_t number = pass == Pass::forward ? 1 : sizeof(float) / sizeof(Bf16);
    return merged.ring_rows * 2 * heads.kv_width() * number;
  }
  const std::size_t share = heads.heads / merged.members, query = heads.query_width() / merged.members,
                    keys = 2 * heads.kv_width() / merged.members;
  // At once: queries with keys and values; outputs with log-sum-exps. Backward: queries and the outputs'
  // gradients with log-sum-exps and deltas; the first again, of gradients.
  const std::size_t widest =
      pass == Pass::forward ? query + std::max(keys, 2 * share) : query + std::max(keys, query + 4 * share);
  return std::max(merged.tokens, tokens * merged.members) * widest;
}

inline std::size_t StageWorkspace::lay_out(const StagePart& part, std::size_t chunk, Pass pass,
                                           std::size_t tokens, const MergedTask& merged, std::byte* at) {
  std::size_t bytes = 0;
  const auto add = [&]<class T>(std::span<T>& numbers, std::size_t n) {
    numbers = {at == nullptr ? nullptr : reinterpret_cast<T*>(at + bytes), at == nullptr ? 0 : n};
    bytes += arena_bytes<T>(n);
  };
  const auto rows = [&]<class T>(MatrixView<T>& matrix, std::size_t count, std::size_t cols) {
    std::span<T> numbers;
    add(numbers, count * cols);
    matrix = {numbers.data(), count, cols};
  };
  const HeadShape heads = part.heads();
  const std::size_t hidden = part.hidden(), query = heads.query_width(), ffn = part.ffn();
  rows(normed, tokens, hidden);
  rows(attention, tokens, query);
  rows(lse, heads.heads, tokens);
  rows(gate_up, tokens, 2 * ffn);
  rows(act, tokens, ffn);
  add(rope, tokens * heads.head_dim);
  if (part.last) {
    rows(logits, std::min(tokens, chunk), part.vocab());
    add(states, std::min(tokens, chunk));
  }
  if (merged.members > 1 && merged.merged == MergedAttention::ring) {
    const std::size_t keys_values = 2 * heads.kv_width();
    rows(ring_part, tokens, query);
    rows(ring_lse, heads.heads, tokens);
    rows(ring_sum, tokens, query);
    for (auto& matrix : ring_keys) rows(matrix, merged.ring_rows, keys_values);
    if (pass == Pass::backward) {
      for (auto& matrix : ring_made) rows(matrix, merged.ring_rows, keys_values);
      rows(ring_came, merged.ring_rows, keys_values);
    }
  } else if (merged.members > 1) {
    const std::size_t all = merged.tokens, share = heads.heads / merged.members;
    const std::size_t own_query = query / merged.members, own_keys = 2 * heads.kv_width() / merged.members;
    for (auto* matrix : {&head_q, &head_out}) rows(*matrix, all, own_query);
    rows(head_kv, all, own_keys);
    rows(head_lse, share, all);
    if (pass == Pass::backward) {
      for (auto* matrix : {&head_dq, &head_dout}) rows(*matrix, all, own_query);
      rows(head_delta, share, all);
    }
    for (auto* numbers : {&sent, &received}) add(*numbers, exchange_numbers(part, pass, tokens, merged));
  }
  if (pass == Pass::forward) {
    rows(qkv, tokens, query + 2 * heads.kv_width());
    return bytes;
  }
  for (auto* matrix : {&x, &middle, &dnormed}) rows(*matrix, tokens, hidden);
  for (auto* matrix : {&q, &dattention}) rows(*matrix, tokens, query);
  rows(dqkv, tokens, query + 2 * heads.kv_width());
  rows(dact, tokens, ffn);
  rows(delta, heads.heads, tokens);
  add(norm, rms_norm_workspace(tokens, hidden));
  return bytes;
}

/// Bytes of a workspace while a task of `tokens` own tokens runs; a weight task needs none.
[[nodiscard]] inline std::size_t stage_workspace_bytes(const StagePart& part, std::size_t chunk, Pass pass,
                                                       std::size_t tokens, const MergedTask& merged = {}) {
  return pass == Pass::weight ? 0 : StageWorkspace{}.lay_out(part, chunk, pass, tokens, merged, nullptr);
}

}  // namespace slimpack::kernels::cuda
