#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/cuda/device/cross_entropy.hpp"
#include "kernels/cuda/portable.hpp"
#include "kernels/math/adamw.hpp"
#include "kernels/math/matrix.hpp"
#include "slimpack/core/error.hpp"

// The operators of kernels/math on a GPU: bf16 in memory, float in between, gradients of weights in float. All
// data is the GPU's memory; the work goes into a stream, and nothing waits for it. Each throws InvalidInput
// if shapes don't fit and std::runtime_error if the GPU refuses, gives the same bits whenever it is
// called with the same numbers, and takes rows of any size, fastest of multiples of 8 that begin at
// multiples of 16 bytes. What a number is, the header of the same name in kernels/math says.
namespace slimpack::kernels::cuda {

/// The tokens of a pack by their ids, so that one block adds up all gradients of an embedding's row: no two
/// blocks write to the same row, and the order of the sum is that of the tokens.
struct TokenOrder {
  std::vector<std::int32_t> ids;     ///< those that occur, ascending
  std::vector<std::int32_t> begins;  ///< one more than `ids`: where their tokens begin in `tokens`
  std::vector<std::int32_t> tokens;  ///< of each id, ascending
};

/// @param ids [tokens], each below vocab
/// @throws InvalidInput naming the first id out of range, or if there are more than 2^31 - 1 tokens.
/// O(tokens log tokens).
[[nodiscard]] inline TokenOrder token_order(std::span<const std::int32_t> ids, std::int32_t vocab) {
  require(ids.size() <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()), "there are ",
          ids.size(), " tokens; expected at most 2147483647 in a pack");
  for (std::size_t t = 0; t < ids.size(); ++t) {
    require(ids[t] >= 0 && ids[t] < vocab, "token ", t, " has id ", ids[t],
            "; expected a number below the vocabulary of ", vocab);
  }
  TokenOrder order;
  order.tokens.resize(ids.size());
  std::iota(order.tokens.begin(), order.tokens.end(), 0);
  const auto id = [&](std::int32_t token) { return ids[static_cast<std::size_t>(token)]; };
  std::stable_sort(order.tokens.begin(), order.tokens.end(),
                   [&](std::int32_t a, std::int32_t b) { return id(a) < id(b); });
  for (std::size_t i = 0; i < order.tokens.size(); ++i) {
    if (i > 0 && id(order.tokens[i]) == order.ids.back()) continue;
    order.ids.push_back(id(order.tokens[i]));
    order.begins.push_back(static_cast<std::int32_t>(i));
  }
  order.begins.push_back(static_cast<std::int32_t>(ids.size()));
  return order;
}

/// RMSNorm of x, or of x + residual. @param residual if it has data, `sum` gets x + residual, rounded, which
/// is what backward needs as its x; sum and y may be x. @param x, residual, sum, y [tokens x hidden]
/// @param weight [hidden]. O(tokens * hidden).
void rms_norm(const MatrixView<const Bf16>& x, const MatrixView<const Bf16>& residual,
              const MatrixView<Bf16>& sum, std::span<const Bf16> weight, double epsilon,
              const MatrixView<Bf16>& y, Stream stream);

/// Gradients of `rms_norm` from its input; **adds** them to dx and dweight.
/// @param workspace at least rms_norm_workspace(tokens, hidden) numbers. O(tokens * hidden).
void rms_norm_backward(const MatrixView<const Bf16>& x, std::span<const Bf16> weight, double epsilon,
                       const MatrixView<const Bf16>& dy, const MatrixView<Bf16>& dx, std::span<float> dweight,
                       std::span<float> workspace, Stream stream);

/// Cosines and sines of the rotary embedding's angles of a pack, computed in double, kept in float.
/// @param positions [tokens] of each token in its sample, prefix included: `PackIndices::positions`
/// @param table [tokens x head_dim]: of each token, cosines and then sines. O(tokens * head_dim).
void rope_table(std::span<const std::int32_t> positions, std::size_t head_dim, double theta,
                std::span<float> table, Stream stream);

/// Turns the heads of each row, in place. @param x [tokens x heads * head_dim]. O(size of x).
void rope(std::span<const float> table, std::size_t head_dim, const MatrixView<Bf16>& x, Stream stream);

/// The inverse of `rope`, and its gradient.
void rope_backward(std::span<const float> table, std::size_t head_dim, const MatrixView<Bf16>& x,
                   Stream stream);

/// out = gate * sigmoid(gate) * up. @param gate_up [tokens x 2 ffn] @param out [tokens x ffn]
/// O(tokens * ffn).
void swiglu(const MatrixView<const Bf16>& gate_up, const MatrixView<Bf16>& out, Stream stream);

/// Gradient of `swiglu`; dgate_up may be gate_up. O(tokens * ffn).
void swiglu_backward(const MatrixView<const Bf16>& gate_up, const MatrixView<const Bf16>& dout,
                     const MatrixView<Bf16>& dgate_up, Stream stream);

/// Takes the logits of a part of the vocabulary into the tokens' softmax, which may come part by part; the
/// part with `first` 0 comes first and begins it.
/// @param logits [tokens x part] @param first of the vocabulary, where the part begins
/// @param labels [tokens] within the vocabulary or `no_label`, as the caller has made sure
/// @param states [tokens]. O(size of logits).
void cross_entropy_part(const MatrixView<const Bf16>& logits, std::size_t first,
                        std::span<const std::int32_t> labels, std::span<LogitState> states, Stream stream);

/// **Adds** the loss of all tokens with a label to *loss, once all parts were met. O(tokens).
void cross_entropy_loss(std::span<const std::int32_t> labels, std::span<const LogitState> states,
                        double* loss, Stream stream);

/// Replaces a part's logits by `scale` times the loss's gradient, once all parts were met. O(size of logits).
void cross_entropy_backward(const MatrixView<Bf16>& logits, std::size_t first,
                            std::span<const std::int32_t> labels, std::span<const LogitState> states,
                            double scale, Stream stream);

/// One step of AdamW on float master weights; `copies` get the new weights in bf16. O(weights).
/// @throws InvalidInput as kernels/math/adamw.hpp.
void adamw(std::span<float> weights, std::span<Bf16> copies, std::span<const float> gradients,
           std::span<float> first, std::span<float> second, std::int64_t step, const AdamWOptions& options,
           Stream stream);

/// Row ids[t] of the table for each token t. @param table [vocab x hidden] @param ids [tokens] below vocab, as
/// `token_order` has made sure @param out [tokens x hidden]. O(size of out).
void embedding(const MatrixView<const Bf16>& table, std::span<const std::int32_t> ids,
               const MatrixView<Bf16>& out, Stream stream);

/// **Adds** each token's row to that of its id. @param ids, begins, tokens of a `TokenOrder`, on the GPU
/// @param dout [tokens x hidden] @param dtable [vocab x hidden]. O(size of dout).
void embedding_backward(std::span<const std::int32_t> ids, std::span<const std::int32_t> begins,
                        std::span<const std::int32_t> tokens, const MatrixView<const Bf16>& dout,
                        const MatrixView<float>& dtable, Stream stream);

/// Adds rows of bf16 to rows of float. @param rows of `to` that they are added to, each at most once, in the GPU's
/// memory; empty for all of them. O(numbers).
void accumulate_rows(const MatrixView<const Bf16>& from, const MatrixView<float>& to,
                     std::span<const std::int32_t> rows, Stream stream);

/// A number for each head and token, token by token: to = from transposed. @param from [heads x tokens]
/// @param to [tokens x heads]. O(numbers).
void to_token_order(const MatrixView<float>& from, std::span<float> to, Stream stream);

/// The inverse. @param from [tokens x heads] @param to [heads x tokens]. O(numbers).
void from_token_order(std::span<float> from, const MatrixView<float>& to, Stream stream);

}  // namespace slimpack::kernels::cuda
