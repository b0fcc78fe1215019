#include "kernels/model/pack_attention.hpp"

#include <algorithm>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

template <class Real>
std::size_t rows_of(const KeyValuePiece<Real>& page) {
  return page.k.rows;
}
template <class PieceGradients>
  requires requires(const PieceGradients& page) { page.dk; }
std::size_t rows_of(const PieceGradients& page) { return page.dk.rows; }

/// Calls f(page, its first row, row of the part, rows) for rows `from` to `from + rows` of all pages.
template <class Pages, class F>
void for_each_own(const Pages& pages, std::size_t from, std::size_t rows, F&& f) {
  std::size_t at = 0;
  for (const auto& page : pages) {
    const std::size_t size = rows_of(page), end = std::min(at + size, from + rows);
    const std::size_t begin = std::max(at, from);
    if (begin < end) f(page, begin - at, begin - from, end - begin);
    at += size;
  }
}

}  // namespace

template <class Real>
void PackAttention<Real>::set_ranges(const Slice& slice, std::size_t member,
                                     std::vector<Positions>& out) const {
  out.clear();
  owners_->for_each_owned_range(slice, member, [&](const Slice& range) {
    out.push_back({range.begin, range.end});
  });
}

template <class Real>
template <class F>
void PackAttention<Real>::for_each_slice(const StageTask& task, F&& f) {
  require(!task.merged() || static_cast<bool>(shift_), to_string(task),
          " is merged; expected a ring shift between its ", task.members.size(), " members");
  std::size_t row = 0;
  for (const Slice& slice : task.slices) {
    set_ranges(slice, task.member, positions_);
    const std::size_t rows = count(positions_);
    f(slice, row, rows);
    row += rows;
  }
}

template <class Real>
void PackAttention<Real>::forward(const StageTask& task, std::size_t layer, const MatrixView<const Real>& q,
                                  const AttentionState<Real>& state, const MatrixView<Real>& lse) {
  set_heads(task);
  if (by_heads(task)) return heads_forward(task, layer, q, state, lse);
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
  set_heads(task);
  if (by_heads(task)) return heads_backward(task, layer, q, saved, dq);
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

/// Calls f(first row, largest share) for the windows of a sample up to a slice's end. Each has the same rows of every member, at
/// most `ring_tokens_`; the largest share is the most rows that any member has of them.
template <class Real>
template <class F>
void PackAttention<Real>::for_each_window(const Slice& slice, const StageTask& task, F&& f) {
  std::size_t most = 0;
  for (std::size_t m = 0; m < task.members.size(); ++m)
    most = std::max(most, store_.local(slice.sample, slice.end, m));
  for (std::size_t first = 0; first < most; first += ring_tokens_)
    f(first, std::min(ring_tokens_, most - first));
}

/// Rows of a window that this member has.
template <class Real>
std::size_t PackAttention<Real>::own_rows(const Slice& slice, std::size_t first) const {
  const std::size_t end = store_.local(slice.sample, slice.end);
  return std::min(ring_tokens_, end - std::min(first, end));
}

/// Sets `others_` to the rows of a window that a member has. @returns how many.
template <class Real>
std::size_t PackAttention<Real>::set_others(const Slice& slice, std::size_t first, std::size_t member) {
  const Slice keys{slice.sample, 0, slice.end};
  set_ranges(
      owners_->part_of_rows(keys, member, static_cast<Tokens>(first), static_cast<Tokens>(ring_tokens_)),
      member, others_);
  return count(others_);
}

/// `rows` keys of the pages from row `from` on, and after them as many values.
template <class Real>
void PackAttention<Real>::copy_own(std::size_t from, std::size_t rows, Real* to) const {
  for_each_own(pieces_, from, rows,
               [&](const KeyValuePiece<Real>& piece, std::size_t first, std::size_t at, std::size_t size) {
                 std::copy_n(piece.k.row(first), size * width_, to + at * width_);
                 std::copy_n(piece.v.row(first), size * width_, to + (rows + at) * width_);
               });
}

template <class Real>
void PackAttention<Real>::ring_forward(const StageTask& task, const Slice& slice,
                                       const QueryRows<Real>& queries, const AttentionState<Real>& state) {
  const std::size_t members = task.members.size();
  for_each_window(slice, task, [&](std::size_t first_row, std::size_t share) {
    const std::size_t most = 2 * share * width_;
    const Lease<Real> first(memory_, most, " at ", to_string(task)),
        second(memory_, most, " at ", to_string(task));
    Real *here = first.data(), *next = second.data();
    std::size_t rows = own_rows(slice, first_row);
    copy_own(first_row, rows, here);
    for (std::size_t round = 1; round < members; ++round) {
      const std::size_t coming = set_others(slice, first_row, (task.member + members - round) % members);
      shift_(task, {here, 2 * rows * width_}, {next, 2 * coming * width_});
      std::swap(here, next);
      rows = coming;
      const KeyValuePiece<Real> piece{part(here, 0, rows), part(here, 1, rows), others_};
      attention_.accumulate(queries, std::span(&piece, 1), state);
    }
  });
}

template <class Real>
void PackAttention<Real>::ring_backward(const StageTask& task, const Slice& slice,
                                        const QueryRows<Real>& queries,
                                        const typename Attention<Real>::Saved& saved,
                                        const MatrixView<Real>& dq) {
  const std::size_t members = task.members.size();
  for_each_window(slice, task, [&](std::size_t first_row, std::size_t share) {
    const std::size_t most = 4 * share * width_;
    const std::size_t own = own_rows(slice, first_row);
    const Lease<Real> first(memory_, most, " at ", to_string(task)),
        second(memory_, most, " at ", to_string(task));
    Real *here = first.data(), *next = second.data();
    std::size_t rows = own;
    copy_own(first_row, rows, here);
    std::fill_n(here + 2 * rows * width_, 2 * rows * width_, Real{0});
    for (std::size_t round = 1; round < members; ++round) {
      const std::size_t coming = set_others(slice, first_row, (task.member + members - round) % members);
      shift_(task, {here, 4 * rows * width_}, {next, 4 * coming * width_});
      std::swap(here, next);
      rows = coming;
      const KeyValuePiece<Real> piece{part(here, 0, rows), part(here, 1, rows), others_};
      const PieceGradients gradients{part(here, 2, rows), part(here, 3, rows)};
      attention_.backward(queries, saved, std::span(&piece, 1), dq, std::span(&gradients, 1));
    }
    // Home, with the gradients alone.
    shift_(task, {here + 2 * rows * width_, 2 * rows * width_}, {next, 2 * own * width_});
    add_own(first_row, own, next);
  });
}

/// Adds the gradients of `rows` keys, and after them of as many values, to those of the pages from row `to` on.
template <class Real>
void PackAttention<Real>::add_own(std::size_t to, std::size_t rows, const Real* from) const {
  for_each_own(gradients_, to, rows,
               [&](const PieceGradients& page, std::size_t first, std::size_t at, std::size_t size) {
                 const Real *dk = from + at * width_, *dv = dk + rows * width_;
                 for (std::size_t i = 0; i < size * width_; ++i) page.dk.row(first)[i] += dk[i];
                 for (std::size_t i = 0; i < size * width_; ++i) page.dv.row(first)[i] += dv[i];
               });
}

template class PackAttention<float>;
template class PackAttention<double>;

}  // namespace slimpack::kernels
