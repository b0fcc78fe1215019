#include "kernels/math/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/math/eigen_private.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

/// Some tokens' queries of one key/value head's group: row `token * group + head` of the block's matrices.
template <class Real>
struct Attention<Real>::Block {
  std::size_t kv_head = 0;
  std::size_t first = 0;  ///< token
  std::size_t tokens = 0;
  std::size_t rows = 0;  ///< tokens * group
};

namespace {

void require_ascending(std::span<const Positions> ranges, const char* what) {
  Tokens reached = 0;
  for (const Positions& range : ranges) {
    require(range.begin >= reached && range.end >= range.begin, "positions of ", what, " have [", range.begin,
            ", ", range.end, ") after ", reached, "; expected ranges that ascend");
    reached = range.end;
  }
}

template <class T>
void require_shape(const MatrixView<T>& m, std::size_t rows, std::size_t cols, const char* what) {
  require(m.rows == rows && m.cols == cols, what, " are [", m.rows, " x ", m.cols, "]; expected [", rows,
          " x ", cols, "]");
}

/// Rows of the ranges that are at the position or before it.
std::size_t count_until(std::span<const Positions> ranges, Tokens position) {
  std::size_t keys = 0;
  for (const Positions& range : ranges) {
    if (range.end > position) {
      return keys + static_cast<std::size_t>(std::max(position + 1 - range.begin, Tokens{0}));
    }
    keys += range.size();
  }
  return keys;
}

}  // namespace

template <class Real>
Attention<Real>::Attention(const HeadShape& shape, const AttentionBlocks& blocks) : blocks_(blocks) {
  require(blocks.rows > 0 && blocks.keys > 0, "blocks are of ", blocks.rows, " rows and ", blocks.keys,
          " keys; expected positive numbers");
  set_shape(shape);
}

template <class Real>
void Attention<Real>::set_shape(const HeadShape& shape) {
  require(shape.heads > 0 && shape.kv_heads > 0 && shape.head_dim > 0, "attention has ", shape.heads,
          " heads, ", shape.kv_heads, " key/value heads of size ", shape.head_dim,
          "; expected positive numbers");
  require(shape.heads % shape.kv_heads == 0, "kv_heads is ", shape.kv_heads,
          "; expected a divisor of heads = ", shape.heads);
  shape_ = shape;
}

template <class Real>
void Attention<Real>::begin(const AttentionState<Real>& state) {
  detail::map(state.out).setZero();
  detail::map(state.maximum).setConstant(-std::numeric_limits<Real>::infinity());
  detail::map(state.sum).setZero();
}

template <class Real>
void Attention<Real>::finish(const AttentionState<Real>& state, const MatrixView<Real>& lse) const {
  for (std::size_t t = 0; t < state.out.rows; ++t) {
    for (std::size_t a = 0; a < shape_.heads; ++a) {
      const Real sum = state.sum.row(t)[a];
      require(sum > 0 || std::isnan(sum), "query ", t, " has met no key; expected at least the token's own");
      detail::array(state.out.row(t) + a * shape_.head_dim, shape_.head_dim) *= Real{1} / sum;
      lse.row(t)[a] = state.maximum.row(t)[a] + std::log(sum);
    }
  }
}

template <class Real>
void Attention<Real>::check(const QueryRows<Real>& queries,
                            std::span<const KeyValuePiece<Real>> pieces) const {
  require_shape(queries.q, count(queries.positions), shape_.query_width(), "queries");
  require_ascending(queries.positions, "queries");
  for (const KeyValuePiece<Real>& piece : pieces) {
    require_shape(piece.k, count(piece.positions), shape_.kv_width(), "keys");
    require_shape(piece.v, count(piece.positions), shape_.kv_width(), "values");
    require_ascending(piece.positions, "keys");
  }
}

template <class Real>
void Attention<Real>::set_positions(std::span<const Positions> ranges) {
  position_.clear();
  for (const Positions& range : ranges) {
    for (Tokens position = range.begin; position < range.end; ++position) position_.push_back(position);
  }
}

/// Calls `f(block)` for each block of queries of each key/value head.
template <class Real>
template <class F>
void Attention<Real>::for_each_block(std::size_t tokens, F&& f) {
  const std::size_t most = block_tokens(shape_, blocks_);
  for (std::size_t head = 0; head < shape_.kv_heads; ++head) {
    for (std::size_t first = 0; first < tokens; first += most) {
      const std::size_t size = std::min(most, tokens - first);
      f(Block{head, first, size, size * shape_.group()});
    }
  }
}

/// Keys of the piece that each token of the block sees; returns the most.
template <class Real>
std::size_t Attention<Real>::limits(const Block& block, const KeyValuePiece<Real>& piece) {
  if (piece.positions.empty()) return 0;
  const Tokens first = position_[block.first], last = position_[block.first + block.tokens - 1];
  if (last < piece.positions.front().begin) return 0;
  limit_.assign(block.tokens, piece.k.rows);
  if (first >= piece.positions.back().end) return piece.k.rows;
  for (std::size_t t = 0; t < block.tokens; ++t) {
    limit_[t] = count_until(piece.positions, position_[block.first + t]);
  }
  return limit_.back();
}

/// The block's heads of its tokens' rows, scaled.
template <class Real>
void Attention<Real>::gather(const MatrixView<const Real>& rows, const Block& block, Real scale,
                             Matrix<Real>& out) const {
  const std::size_t width = shape_.group() * shape_.head_dim;
  out.resize(block.rows, shape_.head_dim);
  for (std::size_t t = 0; t < block.tokens; ++t) {
    detail::array(out.data() + t * width, width) =
        scale * detail::array(rows.row(block.first + t) + block.kv_head * width, width);
  }
}

template <class Real>
void Attention<Real>::scatter_add(const Matrix<Real>& rows, const Block& block, Real scale,
                                  const MatrixView<Real>& out) const {
  const std::size_t width = shape_.group() * shape_.head_dim;
  for (std::size_t t = 0; t < block.tokens; ++t) {
    detail::array(out.row(block.first + t) + block.kv_head * width, width) +=
        scale * detail::array(rows.data() + t * width, width);
  }
}

template <class Real>
void Attention<Real>::accumulate(const QueryRows<Real>& queries, std::span<const KeyValuePiece<Real>> pieces,
                                 const AttentionState<Real>& state) {
  check(queries, pieces);
  const std::size_t tokens = queries.q.rows, group = shape_.group(), dim = shape_.head_dim;
  require_shape(state.out, tokens, shape_.query_width(), "outputs");
  require_shape(state.maximum, tokens, shape_.heads, "maxima");
  require_shape(state.sum, tokens, shape_.heads, "sums");
  set_positions(queries.positions);
  const Real scale = Real{1} / std::sqrt(static_cast<Real>(dim));
  for_each_block(tokens, [&](const Block& block) {
    gather(queries.q, block, scale, q_);
    gather(state.out, block, Real{1}, out_);
    maximum_.resize(block.rows);
    sum_.resize(block.rows);
    const std::size_t head = block.kv_head * group;
    for (std::size_t t = 0; t < block.tokens; ++t) {
      std::copy_n(state.maximum.row(block.first + t) + head, group, &maximum_[t * group]);
      std::copy_n(state.sum.row(block.first + t) + head, group, &sum_[t * group]);
    }
    for (const KeyValuePiece<Real>& piece : pieces) forward_piece(block, piece);
    for (std::size_t t = 0; t < block.tokens; ++t) {
      std::copy_n(&maximum_[t * group], group, state.maximum.row(block.first + t) + head);
      std::copy_n(&sum_[t * group], group, state.sum.row(block.first + t) + head);
      std::copy_n(out_.data() + t * group * dim, group * dim, state.out.row(block.first + t) + head * dim);
    }
  });
}

template <class Real>
void Attention<Real>::forward_piece(const Block& block, const KeyValuePiece<Real>& piece) {
  const std::size_t visible = limits(block, piece), dim = shape_.head_dim;
  for (std::size_t key = 0; key < visible; key += blocks_.keys) {
    const std::size_t keys = std::min(blocks_.keys, visible - key);
    const auto k = piece.k.middle_rows(key, keys).middle_cols(block.kv_head * dim, dim);
    const auto v = piece.v.middle_rows(key, keys).middle_cols(block.kv_head * dim, dim);
    scores_.resize(block.rows, keys);
    detail::map(scores_.view()).noalias() = detail::map(q_.view()) * detail::map(k).transpose();
    softmax_rows(block, key, keys);
    detail::map(out_.view()).noalias() += detail::map(scores_.view()) * detail::map(v);
  }
}

/// Replaces scores by their exponentials, and brings the rows' state up to the new maximum.
template <class Real>
void Attention<Real>::softmax_rows(const Block& block, std::size_t key, std::size_t keys) {
  const std::size_t group = shape_.group();
  for (std::size_t row = 0; row < block.rows; ++row) {
    const std::size_t limit = limit_[row / group];
    const std::size_t seen = limit > key ? std::min(limit - key, keys) : 0;
    Real* scores = scores_.data() + row * keys;
    std::fill(scores + seen, scores + keys, Real{0});
    if (seen == 0) continue;
    auto visible = detail::array(scores, seen);
    const Real before = maximum_[row], now = std::max(before, visible.maxCoeff());
    visible = (visible - now).exp();
    if (now != before) {
      const Real shrink = std::exp(before - now);
      sum_[row] *= shrink;
      detail::array(out_.data() + row * shape_.head_dim, shape_.head_dim) *= shrink;
      maximum_[row] = now;
    }
    sum_[row] += visible.sum();
  }
}

template <class Real>
void Attention<Real>::backward(const QueryRows<Real>& queries, const Saved& saved,
                               std::span<const KeyValuePiece<Real>> pieces, const MatrixView<Real>& dq,
                               std::span<const PieceGradients> gradients) {
  check(queries, pieces);
  const std::size_t tokens = queries.q.rows, group = shape_.group(), dim = shape_.head_dim;
  require_shape(saved.out, tokens, shape_.query_width(), "outputs");
  require_shape(saved.dout, tokens, shape_.query_width(), "gradients of outputs");
  require_shape(saved.lse, tokens, shape_.heads, "log-sum-exps");
  require_shape(dq, tokens, shape_.query_width(), "gradients of queries");
  require(gradients.size() == pieces.size(), "there are ", gradients.size(), " gradients for ", pieces.size(),
          " pieces; expected one each");
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    require_shape(gradients[i].dk, pieces[i].k.rows, shape_.kv_width(), "gradients of keys");
    require_shape(gradients[i].dv, pieces[i].v.rows, shape_.kv_width(), "gradients of values");
  }
  set_positions(queries.positions);
  const Real scale = Real{1} / std::sqrt(static_cast<Real>(dim));
  for_each_block(tokens, [&](const Block& block) {
    gather(queries.q, block, scale, q_);
    gather(saved.dout, block, Real{1}, dout_);
    gather(saved.out, block, Real{1}, out_);
    maximum_.resize(block.rows);
    sum_.resize(block.rows);
    for (std::size_t row = 0; row < block.rows; ++row) {
      maximum_[row] = saved.lse.row(block.first + row / group)[block.kv_head * group + row % group];
      sum_[row] =
          (detail::array(dout_.data() + row * dim, dim) * detail::array(out_.data() + row * dim, dim)).sum();
    }
    dq_.resize(block.rows, dim);
    detail::map(dq_.view()).setZero();
    for (std::size_t i = 0; i < pieces.size(); ++i) backward_piece(block, pieces[i], gradients[i]);
    scatter_add(dq_, block, scale, dq);
  });
}

template <class Real>
void Attention<Real>::backward_piece(const Block& block, const KeyValuePiece<Real>& piece,
                                     const PieceGradients& gradients) {
  const std::size_t visible = limits(block, piece), dim = shape_.head_dim;
  for (std::size_t key = 0; key < visible; key += blocks_.keys) {
    const std::size_t keys = std::min(blocks_.keys, visible - key);
    const auto part = [&](const auto& rows) {
      return detail::map(rows.middle_rows(key, keys).middle_cols(block.kv_head * dim, dim));
    };
    scores_.resize(block.rows, keys);
    dscores_.resize(block.rows, keys);
    auto p = detail::map(scores_.view()), ds = detail::map(dscores_.view());
    const auto q = detail::map(q_.view()), dout = detail::map(dout_.view());
    p.noalias() = q * part(piece.k).transpose();
    ds.noalias() = dout * part(piece.v).transpose();
    gradient_rows(block, key, keys);
    part(gradients.dv).noalias() += p.transpose() * dout;
    part(gradients.dk).noalias() += ds.transpose() * q;
    detail::map(dq_.view()).noalias() += ds * part(piece.k);
  }
}

/// Replaces scores by probabilities, and the probabilities' gradients by those of the scores.
template <class Real>
void Attention<Real>::gradient_rows(const Block& block, std::size_t key, std::size_t keys) {
  const std::size_t group = shape_.group();
  for (std::size_t row = 0; row < block.rows; ++row) {
    const std::size_t limit = limit_[row / group];
    const std::size_t seen = limit > key ? std::min(limit - key, keys) : 0;
    Real* p = scores_.data() + row * keys;
    Real* ds = dscores_.data() + row * keys;
    std::fill(p + seen, p + keys, Real{0});
    std::fill(ds + seen, ds + keys, Real{0});
    auto probability = detail::array(p, seen);
    auto gradient = detail::array(ds, seen);
    probability = (probability - maximum_[row]).exp();
    gradient = probability * (gradient - sum_[row]);
  }
}

template class Attention<float>;
template class Attention<double>;

}  // namespace slimpack::kernels
