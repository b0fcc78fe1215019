#include "kernels/model/pack_attention.hpp"

#include <algorithm>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

template <class Real>
void PackAttention<Real>::set_ranges(const Slice& slice, const StageTask& task, std::size_t member,
                                     std::vector<Positions>& out) const {
  out.clear();
  for_each_owned_range(slice, task.members.size(), member, block_, [&](const Slice& range) {
    out.push_back({range.begin, range.end});
  });
}

template <class Real>
template <class F>
void PackAttention<Real>::for_each_slice(const StageTask& task, F&& f) {
  require(!task.merged() || shift_, to_string(task), " is merged; expected a ring shift between its ",
          task.members.size(), " members");
  std::size_t row = 0;
  for (const Slice& slice : task.slices) {
    set_ranges(slice, task, task.member, positions_);
    const std::size_t rows = count(positions_);
    f(slice, row, rows);
    row += rows;
  }
}

template <class Real>
void PackAttention<Real>::forward(const StageTask& task, std::size_t layer, const MatrixView<const Real>& q,
                                  const AttentionState<Real>& state, const MatrixView<Real>& lse) {
  Attention<Real>::begin(state);
  for_each_slice(task, [&](const Slice& slice, std::size_t row, std::size_t rows) {
    const QueryRows<Real> queries{q.middle_rows(row, rows), positions_};
    const AttentionState<Real> part{state.out.middle_rows(row, rows), state.maximum.middle_rows(row, rows),
                                    state.sum.middle_rows(row, rows)};
    pieces_.clear();
    store_.pieces(layer, slice.sample, slice.end, pieces_);
    attention_.accumulate(queries, pieces_, part);
    if (task.merged()) ring_forward(task, slice, queries, part);
  });
  attention_.finish(state, lse);
}

template <class Real>
void PackAttention<Real>::backward(const StageTask& task, std::size_t layer, const MatrixView<const Real>& q,
                                   const typename Attention<Real>::Saved& saved, const MatrixView<Real>& dq) {
  for_each_slice(task, [&](const Slice& slice, std::size_t row, std::size_t rows) {
    const QueryRows<Real> queries{q.middle_rows(row, rows), positions_};
    const typename Attention<Real>::Saved part{saved.out.middle_rows(row, rows),
                                               saved.lse.middle_rows(row, rows),
                                               saved.dout.middle_rows(row, rows)};
    pieces_.clear();
    gradients_.clear();
    store_.pieces(layer, slice.sample, slice.end, pieces_);
    store_.gradients(layer, slice.sample, slice.end, gradients_);
    attention_.backward(queries, part, pieces_, dq.middle_rows(row, rows), gradients_);
    if (task.merged()) ring_backward(task, slice, queries, part, dq.middle_rows(row, rows));
  });
}

/// Copies the first `rows` keys and values of the pages; gradients start at zero.
template <class Real>
void PackAttention<Real>::pack_own(std::size_t rows, bool with_gradients) {
  travelling_.assign((with_gradients ? 4 : 2) * rows * width_, Real{0});
  std::size_t at = 0;
  for (const KeyValuePiece<Real>& piece : pieces_) {
    const std::size_t size = std::min(piece.k.rows, rows - at);
    std::copy_n(piece.k.data, size * width_, travelling_.data() + at * width_);
    std::copy_n(piece.v.data, size * width_, travelling_.data() + (rows + at) * width_);
    at += size;
  }
}

template <class Real>
void PackAttention<Real>::shift(const StageTask& task, std::size_t numbers) {
  arriving_.resize(numbers);
  shift_(task, travelling_, arriving_);
  std::swap(travelling_, arriving_);
}

template <class Real>
void PackAttention<Real>::ring_forward(const StageTask& task, const Slice& slice,
                                       const QueryRows<Real>& queries, const AttentionState<Real>& state) {
  const std::size_t members = task.members.size();
  pack_own(store_.local(slice.sample, slice.end), false);
  for (std::size_t round = 1; round < members; ++round) {
    const std::size_t from = (task.member + members - round) % members;
    set_ranges({slice.sample, 0, slice.end}, task, from, others_);
    const std::size_t rows = count(others_);
    shift(task, 2 * rows * width_);
    const KeyValuePiece<Real> piece{travelling(0, rows), travelling(1, rows), others_};
    attention_.accumulate(queries, std::span(&piece, 1), state);
  }
}

template <class Real>
void PackAttention<Real>::ring_backward(const StageTask& task, const Slice& slice,
                                        const QueryRows<Real>& queries,
                                        const typename Attention<Real>::Saved& saved,
                                        const MatrixView<Real>& dq) {
  const std::size_t members = task.members.size(), own = store_.local(slice.sample, slice.end);
  pack_own(own, true);
  std::size_t rows = own;
  for (std::size_t round = 1; round < members; ++round) {
    const std::size_t from = (task.member + members - round) % members;
    set_ranges({slice.sample, 0, slice.end}, task, from, others_);
    rows = count(others_);
    shift(task, 4 * rows * width_);
    const KeyValuePiece<Real> piece{travelling(0, rows), travelling(1, rows), others_};
    const PieceGradients gradients{travelling(2, rows), travelling(3, rows)};
    attention_.backward(queries, saved, std::span(&piece, 1), dq, std::span(&gradients, 1));
  }
  // Home: gradients alone.
  travelling_.erase(travelling_.begin(),
                    travelling_.begin() + static_cast<std::ptrdiff_t>(2 * rows * width_));
  shift(task, 2 * own * width_);
  std::size_t at = 0;
  for (const PieceGradients& page : gradients_) {
    const std::size_t size = std::min(page.dk.rows, own - at) * width_;
    for (std::size_t i = 0; i < size; ++i) page.dk.data[i] += travelling_[at * width_ + i];
    for (std::size_t i = 0; i < size; ++i) page.dv.data[i] += travelling_[(own + at) * width_ + i];
    at += page.dk.rows;
  }
}

template class PackAttention<float>;
template class PackAttention<double>;

}  // namespace slimpack::kernels
