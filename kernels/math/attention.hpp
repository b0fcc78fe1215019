#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/math/matrix.hpp"
#include "kernels/math/positions.hpp"

namespace slimpack::kernels {

/// Query heads, and the key/value heads that groups of them share (grouped-query attention).
struct HeadShape {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;  ///< divides heads
  std::size_t head_dim = 0;

  [[nodiscard]] std::size_t group() const { return heads / kv_heads; }
  [[nodiscard]] std::size_t query_width() const { return heads * head_dim; }
  [[nodiscard]] std::size_t kv_width() const { return kv_heads * head_dim; }
};

/// Queries of some tokens of a sample: rows in the order of the positions, which ascend.
template <class Real>
struct QueryRows {
  MatrixView<const Real> q;  ///< [tokens x heads * head_dim]
  std::span<const Positions> positions;
};

/// Keys and values of some tokens of the same sample: rows in the order of the positions, which ascend.
template <class Real>
struct KeyValuePiece {
  MatrixView<const Real> k, v;  ///< [tokens x kv_heads * head_dim]
  std::span<const Positions> positions;
};

/// What queries have gathered from the pieces that they have met: a softmax that is still open (online
/// softmax). Its memory is the caller's.
template <class Real>
struct AttentionState {
  MatrixView<Real> out;      ///< [tokens x heads * head_dim], weighted by exp(score - maximum)
  MatrixView<Real> maximum;  ///< [tokens x heads] of the scores
  MatrixView<Real> sum;      ///< [tokens x heads] of exp(score - maximum)
};

/// Sizes of the blocks in which scores are computed, for which memory is needed: rows of queries (of a whole
/// group of heads) times keys.
struct AttentionBlocks {
  std::size_t rows = 256;
  std::size_t keys = 256;
};

/// Causal attention of queries to keys and values that come piece by piece: the prefix and the slice itself,
/// or the rounds of a ring. A token sees all keys at its position and before. Work goes by key/value head and
/// block of queries, so that grouped heads share its products. Memory: a few blocks, whatever the lengths.
///
///     begin(state);  accumulate(queries, pieces, state); ...  finish(state, lse);
///     backward(queries, out, lse, dout, pieces, dq, gradients) ...
///
/// Keeps its workspace between calls, so one object serves one thread.
template <class Real>
class Attention {
 public:
  /// @throws InvalidInput if kv_heads does not divide heads, or a size is zero.
  explicit Attention(const HeadShape& shape, const AttentionBlocks& blocks = {});

  /// Continues with other numbers of heads, such as a share of them. @throws InvalidInput as the constructor
  /// does.
  void set_shape(const HeadShape& shape);

  /// Most numbers that the workspace takes, whatever the lengths. Of a block: queries, outputs and their gradients, two
  /// matrices of scores, and two numbers for each row.
  [[nodiscard]] static std::size_t workspace_numbers(const HeadShape& shape,
                                                     const AttentionBlocks& blocks = {}) {
    return block_tokens(shape, blocks) * shape.group() * (4 * shape.head_dim + 2 * blocks.keys + 2);
  }

  /// Opens the softmax of all rows.
  static void begin(const AttentionState<Real>& state);

  /// Adds pieces to the state. The pieces of all calls together may come in any order; rows of pieces must
  /// not overlap. Keys after a query's position are left out.
  /// @throws InvalidInput if shapes don't fit or positions don't ascend.
  /// O(pairs of query and visible key * heads * head_dim), in matrix products.
  void accumulate(const QueryRows<Real>& queries, std::span<const KeyValuePiece<Real>> pieces,
                  const AttentionState<Real>& state);

  /// Closes the softmax: `state.out` becomes the attention's output.
  /// @param lse [tokens x heads] gets the log-sum-exp of the scores; it may be `state.maximum` or
  /// `state.sum`.
  /// @throws InvalidInput naming the first row that has met no key.
  void finish(const AttentionState<Real>& state, const MatrixView<Real>& lse) const;

  /// What `backward` needs of the forward pass and of the output's gradient.
  struct Saved {
    MatrixView<const Real> out;   ///< [tokens x heads * head_dim]
    MatrixView<const Real> lse;   ///< [tokens x heads]
    MatrixView<const Real> dout;  ///< [tokens x heads * head_dim]
  };

  /// Gradients of a piece's keys and values.
  struct PieceGradients {
    MatrixView<Real> dk, dv;  ///< [tokens x kv_heads * head_dim]
  };

  /// **Adds** to the gradients of the queries and of the pieces' keys and values. Once all pieces that
  /// forward met have been given, in however many calls, the gradients are complete.
  /// @param dq [tokens x heads * head_dim] @param gradients of each piece
  /// @throws InvalidInput if shapes don't fit or positions don't ascend.
  /// O(pairs of query and visible key * heads * head_dim), in matrix products.
  void backward(const QueryRows<Real>& queries, const Saved& saved,
                std::span<const KeyValuePiece<Real>> pieces, const MatrixView<Real>& dq,
                std::span<const PieceGradients> gradients);

 private:
  struct Block;

  /// Tokens of a block, all heads of a group each.
  [[nodiscard]] static std::size_t block_tokens(const HeadShape& shape, const AttentionBlocks& blocks) {
    return blocks.rows > shape.group() ? blocks.rows / shape.group() : 1;
  }
  void check(const QueryRows<Real>& queries, std::span<const KeyValuePiece<Real>> pieces) const;
  void set_positions(std::span<const Positions> ranges);
  [[nodiscard]] std::size_t limits(const Block& block, const KeyValuePiece<Real>& piece);
  void gather(const MatrixView<const Real>& rows, const Block& block, Real scale, Matrix<Real>& out) const;
  void scatter_add(const Matrix<Real>& rows, const Block& block, Real scale,
                   const MatrixView<Real>& out) const;
  void forward_piece(const Block& block, const KeyValuePiece<Real>& piece);
  void softmax_rows(const Block& block, std::size_t key, std::size_t keys);
  void backward_piece(const Block& block, const KeyValuePiece<Real>& piece, const PieceGradients& gradients);
  void gradient_rows(const Block& block, std::size_t key, std::size_t keys);
  template <class F>
  void for_each_block(std::size_t tokens, F&& f);

  HeadShape shape_;
  AttentionBlocks blocks_;
  std::vector<Tokens> position_;      ///< [token] of the queries
  std::vector<std::size_t> limit_;    ///< [token of the block] keys of the piece that it sees
  Matrix<Real> q_, out_, dout_, dq_;  ///< [rows of the block x head_dim]
  Matrix<Real> scores_, dscores_;     ///< [rows of the block x keys of a block]
  std::vector<Real> maximum_, sum_;   ///< [row of the block]; in backward, log-sum-exp and dout * out
};

}  // namespace slimpack::kernels
