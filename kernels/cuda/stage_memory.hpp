#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "kernels/cuda/arena_plan.hpp"
#include "kernels/cuda/device/cross_entropy.hpp"
#include "kernels/cuda/device/rms_norm.hpp"
#include "kernels/cuda/portable.hpp"
#include "kernels/cuda/ring_plan.hpp"
#include "kernels/cuda/runtime.hpp"
#include "kernels/cuda/task_io.hpp"
#include "kernels/math/matrix.hpp"
#include "kernels/model/memory.hpp"
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

/// Of a task of a step. @param owners of its program.
[[nodiscard]] inline MergedTask merged_task(const StageTask& task, const StageOptions& options,
                                            const SampleOwners& owners) {
  const MergedAttention merged = task.merged() ? merged_attention(task, options.merged) : options.merged;
  const bool ring = task.merged() && merged == MergedAttention::ring;
  return {task.members.size(), static_cast<std::size_t>(task.tokens), merged,
          ring ? most_ring_rows(task, options.ring_tokens, owners) : 0};
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

/// Bytes of a stage on a GPU, for `BackEndMemory`. Exact but for what the arena can't fill, rows that come
/// and go of the largest task while a smaller one runs, factors that wait for weight tasks, members whose shares of a pack differ,
/// and what the host tells of rounds in a ring.
/// @tparam D the device; `D::product_workspace` is what its matrix products take.
template <class D>
class DeviceSizes {
 public:
  /// @param weight_bytes 4: weights, gradients and moments are floats.
  DeviceSizes(double weight_bytes, const StageOptions& options, double moments)
      : options_(options), bytes_(weight_bytes), moments_(moments) {}

  [[nodiscard]] double limit() const { return options_.limit_bytes; }

  /// Weights, gradients and moments, the weights that products read, and workspaces of products and of a library's
  /// attention.
  [[nodiscard]] double held(const StagePart& part) const {
    return (bytes_ * (2.0 + moments_) + sizeof(Bf16)) * weight_count(part) +
           static_cast<double>(D::product_workspace + attention_workspace_bytes(options_));
  }
  [[nodiscard]] double kept(const StagePart& part, std::size_t recompute_layers) const {
    return sizeof(Bf16) * static_cast<double>(kept_layout(part).size(recompute_layers));
  }
  [[nodiscard]] double keys_values(const StagePart& part) const {
    return sizeof(Bf16) * static_cast<double>(part.layer_count() * 2 * part.heads().kv_width());
  }
  [[nodiscard]] double kv_gradients(const StagePart& part) const { return 2.0 * keys_values(part); }

  /// With the rows that come and go of two tasks, and what the host tells of their tokens.
  [[nodiscard]] double workspace(const StagePart& part, Pass pass, std::size_t tokens) const {
    if (pass == Pass::weight) return 0.0;
    const double rows = 2.0 * sizeof(Bf16) * static_cast<double>(part.hidden());
    const double data = 2.0 * token_data_bytes(part);
    return static_cast<double>(stage_workspace_bytes(part, options_.head_chunk_tokens, pass, tokens)) +
           static_cast<double>(tokens) * (rows + data);
  }

  /// By heads, the whole pack's queries, keys, values and outputs of this member's heads, in backward with
  /// gradients, and the messages of those that are exchanged at once. In a ring, sums over what comes round,
  /// and three windows of keys and values, in backward with three of their gradients.
  [[nodiscard]] double exchange(const StagePart& part, Pass pass, Tokens tokens, std::size_t members,
                                MergedAttention way) const {
    if (pass == Pass::weight || members < 2) return 0.0;
    const auto all = static_cast<std::size_t>(tokens);
    const MergedTask merged{members, all, way, options_.ring_tokens};
    const std::size_t chunk = options_.head_chunk_tokens, own = all / members;
    return static_cast<double>(stage_workspace_bytes(part, chunk, pass, own, merged)) -
           static_cast<double>(stage_workspace_bytes(part, chunk, pass, own));
  }

 private:
  /// Of a token: some numbers, and the pages of its activations.
  [[nodiscard]] static double token_data_bytes(const StagePart& part) {
    return task_words * sizeof(std::int32_t) + sizeof(std::int32_t) *
                                                   static_cast<double>(kept_layout(part).size(0)) /
                                                   static_cast<double>(unit_numbers(part));
  }

  StageOptions options_;
  double bytes_, moments_;
};

}  // namespace slimpack::kernels::cuda
