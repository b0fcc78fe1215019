#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/math/matrix.hpp"
#include "kernels/model/weights.hpp"
#include "slimpack/core/ids.hpp"

namespace slimpack::kernels {

/// What a task of a stage computes with, other than weights and stores. Rows are the task's tokens, of the residual stream
/// and what has its form those of the rank; all layers use the same matrices, and each task lays them out in the same piece
/// of memory.
template <class Real>
struct Workspace {
  // Both passes. Backward has `attention` to `act` from the store, or recomputes them.
  MatrixView<Real> x;             ///< the residual stream [hidden]
  MatrixView<Real> normed;        ///< [hidden]
  MatrixView<Real> attention;     ///< its output [heads * head_dim]
  MatrixView<Real> sum, lse;      ///< of attention's scores [heads]
  MatrixView<Real> gate_up, act;  ///< [2 ffn], [ffn]
  MatrixView<Real> logits;        ///< of a chunk of tokens [vocab]; last stage only
  // Of stages with several tensor-parallel ranks.
  MatrixView<Real> whole;    ///< all tokens' rows of something, or this rank's part of their sums [hidden]
  MatrixView<Real> message;  ///< on its way [hidden]
  MatrixView<Real> scores;   ///< of a chunk of tokens, by each rank, this one's first [3]; last stage only
  // Forward.
  MatrixView<Real> qkv;  ///< [(heads + 2 kv_heads) * head_dim]
  // Backward.
  MatrixView<Real> middle;  ///< the residual stream between attention and MLP [hidden]
  MatrixView<Real> q;       ///< [heads * head_dim]
  MatrixView<Real> dx, dnormed, dqkv, dattention, dact;

  /// Lays the matrices out one after another, each where vector registers like it.
  /// @param chunk most tokens of which logits exist at a time. @param rows of the residual stream, of `tokens`.
  /// @param at where; nullptr to learn the size. @returns numbers in all.
  std::size_t lay_out(const StagePart& part, std::size_t chunk, Pass pass, std::size_t tokens,
                      std::size_t rows, Real* at);
};

template <class Real>
std::size_t Workspace<Real>::lay_out(const StagePart& part, std::size_t chunk, Pass pass, std::size_t tokens,
                                     std::size_t own_rows, Real* at) {
  constexpr std::size_t multiple = static_cast<std::size_t>(alignment) / sizeof(Real);
  std::size_t size = 0;
  const auto add = [&](MatrixView<Real>& matrix, std::size_t rows, std::size_t cols) {
    matrix = {at == nullptr ? nullptr : at + size, rows, cols};
    size += (rows * cols + multiple - 1) / multiple * multiple;
  };
  const HeadShape heads = part.heads();
  const std::size_t hidden = part.hidden(), query = heads.query_width(), ffn = part.ffn();
  for (auto* matrix : {&x, &normed}) add(*matrix, own_rows, hidden);
  add(attention, tokens, query);
  for (auto* matrix : {&sum, &lse}) add(*matrix, tokens, heads.heads);
  add(gate_up, tokens, 2 * ffn);
  add(act, tokens, ffn);
  if (part.last) add(logits, std::min(tokens, chunk), part.vocab());
  if (const std::size_t ranks = part.tensor.size; ranks > 1) {
    for (auto* matrix : {&whole, &message}) add(*matrix, std::max(tokens, ranks * own_rows), hidden);
    if (part.last) add(scores, (ranks + 1) * std::min(tokens, chunk), 3);
  }
  if (pass == Pass::forward) {
    add(qkv, tokens, query + 2 * heads.kv_width());
    return size;
  }
  for (auto* matrix : {&middle, &dx, &dnormed}) add(*matrix, own_rows, hidden);
  for (auto* matrix : {&q, &dattention}) add(*matrix, tokens, query);
  add(dqkv, tokens, query + 2 * heads.kv_width());
  add(dact, tokens, ffn);
  return size;
}

/// Numbers of a workspace while a task of `tokens` owned tokens, of which the rank has `rows`, runs; a weight task needs none.
template <class Real>
[[nodiscard]] std::size_t workspace_numbers(const StagePart& part, std::size_t chunk, Pass pass,
                                            std::size_t tokens, std::size_t rows) {
  return pass == Pass::weight ? 0 : Workspace<Real>{}.lay_out(part, chunk, pass, tokens, rows, nullptr);
}

}  // namespace slimpack::kernels
