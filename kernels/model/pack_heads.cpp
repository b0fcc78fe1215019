// Merged packs whose members share heads (see pack_attention.hpp), and what both ways store.
#include <algorithm>

#include "kernels/model/pack_attention.hpp"

namespace slimpack::kernels {

namespace {

/// Rows that live as long as this.
template <class Real>
class LeasedRows {
 public:
  LeasedRows(BufferPool<Real>& memory, std::size_t rows, std::size_t cols, const StageTask& task)
      : numbers_(memory, rows * cols, " at ", to_string(task)), rows_(rows), cols_(cols) {
    std::fill_n(numbers_.data(), rows * cols, Real{0});
  }

  [[nodiscard]] MatrixView<Real> view() const { return {numbers_.data(), rows_, cols_}; }

 private:
  Lease<Real> numbers_;
  std::size_t rows_, cols_;
};

/// Calls f(slice, its first row) for the slices of a task, of which this member has all tokens.
template <class F>
void for_each_whole_slice(const StageTask& task, F&& f) {
  std::size_t row = 0;
  for (const Slice& slice : task.slices) {
    f(slice, row);
    row += static_cast<std::size_t>(slice.size());
  }
}

/// Calls f(range, its first row) for what this member holds of a task.
template <class F>
void for_each_owned(const StageTask& task, F&& f) {
  std::size_t row = 0;
  for (const Slice& slice : task.owned) {
    f(slice, row);
    row += static_cast<std::size_t>(slice.size());
  }
}

}  // namespace

template <class Real>
void PackAttention<Real>::store(const StageTask& task, std::size_t layer, const MatrixView<const Real>& k,
                                const MatrixView<const Real>& v) {
  if (!by_heads(task)) {
    for_each_owned(task, [&](const Slice& range, std::size_t row) {
      const auto rows = static_cast<std::size_t>(range.size());
      store_.write(layer, range, k.middle_rows(row, rows), v.middle_rows(row, rows));
    });
    return;
  }
  exchange_.begin_task(task, *owners_);
  const auto tokens = static_cast<std::size_t>(task.tokens);
  const std::size_t width = width_ / task.members.size();
  const LeasedRows<Real> keys(memory_, tokens, width, task), values(memory_, tokens, width, task);
  exchange_.to_heads(task, k, keys.view());
  exchange_.to_heads(task, v, values.view());
  for_each_whole_slice(task, [&](const Slice& slice, std::size_t row) {
    const auto rows = static_cast<std::size_t>(slice.size());
    store_.write(layer, slice, keys.view().middle_rows(row, rows), values.view().middle_rows(row, rows));
  });
}

template <class Real>
void PackAttention<Real>::gradients(const StageTask& task, std::size_t layer, const MatrixView<Real>& dk,
                                    const MatrixView<Real>& dv) {
  if (!by_heads(task)) {
    for_each_owned(task, [&](const Slice& range, std::size_t row) {
      const auto rows = static_cast<std::size_t>(range.size());
      store_.read_gradients(layer, range, dk.middle_rows(row, rows), dv.middle_rows(row, rows));
    });
    return;
  }
  exchange_.begin_task(task, *owners_);
  const auto tokens = static_cast<std::size_t>(task.tokens);
  const std::size_t width = width_ / task.members.size();
  const LeasedRows<Real> keys(memory_, tokens, width, task), values(memory_, tokens, width, task);
  for_each_whole_slice(task, [&](const Slice& slice, std::size_t row) {
    const auto rows = static_cast<std::size_t>(slice.size());
    store_.read_gradients(layer, slice, keys.view().middle_rows(row, rows),
                          values.view().middle_rows(row, rows));
  });
  exchange_.to_tokens(task, keys.view(), dk);
  exchange_.to_tokens(task, values.view(), dv);
}

template <class Real>
void PackAttention<Real>::heads_forward(const StageTask& task, std::size_t layer,
                                        const MatrixView<const Real>& q, const AttentionState<Real>& state,
                                        const MatrixView<Real>& lse) {
  exchange_.begin_task(task, *owners_);
  const auto tokens = static_cast<std::size_t>(task.tokens);
  const std::size_t members = task.members.size(), width = shape_.query_width() / members;
  const std::size_t heads = shape_.heads / members;
  const LeasedRows<Real> queries(memory_, tokens, width, task), out(memory_, tokens, width, task);
  const LeasedRows<Real> maximum(memory_, tokens, heads, task), sum(memory_, tokens, heads, task);
  exchange_.to_heads(task, q, queries.view());
  const AttentionState<Real> whole{out.view(), maximum.view(), sum.view()};
  Attention<Real>::begin(whole);
  for_each_whole_slice(task, [&](const Slice& slice, std::size_t row) {
    const auto rows = static_cast<std::size_t>(slice.size());
    const Positions positions{slice.begin, slice.end};
    pieces_.clear();
    store_.pieces(layer, slice.sample, slice.end, pieces_);
    attention_.accumulate({queries.view().middle_rows(row, rows), std::span(&positions, 1)}, pieces_,
                          {whole.out.middle_rows(row, rows), whole.maximum.middle_rows(row, rows),
                           whole.sum.middle_rows(row, rows)});
  });
  attention_.finish(whole, sum.view());
  for (std::size_t r = 0; r < q.rows; ++r) {
    std::fill_n(state.out.row(r), state.out.cols, Real{0});
    std::fill_n(lse.row(r), lse.cols, Real{0});
  }
  exchange_.to_tokens(task, out.view(), state.out);
  exchange_.to_tokens(task, sum.view(), lse);
}

template <class Real>
void PackAttention<Real>::heads_backward(const StageTask& task, std::size_t layer,
                                         const MatrixView<const Real>& q,
                                         const typename Attention<Real>::Saved& saved,
                                         const MatrixView<Real>& dq) {
  exchange_.begin_task(task, *owners_);
  const auto tokens = static_cast<std::size_t>(task.tokens);
  const std::size_t members = task.members.size(), width = shape_.query_width() / members;
  const LeasedRows<Real> queries(memory_, tokens, width, task), out(memory_, tokens, width, task);
  const LeasedRows<Real> dout(memory_, tokens, width, task), dqueries(memory_, tokens, width, task);
  const LeasedRows<Real> lse(memory_, tokens, shape_.heads / members, task);
  exchange_.to_heads(task, q, queries.view());
  exchange_.to_heads(task, saved.out, out.view());
  exchange_.to_heads(task, saved.dout, dout.view());
  exchange_.to_heads(task, saved.lse, lse.view());
  for_each_whole_slice(task, [&](const Slice& slice, std::size_t row) {
    const auto rows = static_cast<std::size_t>(slice.size());
    const Positions positions{slice.begin, slice.end};
    pieces_.clear();
    gradients_.clear();
    store_.pieces(layer, slice.sample, slice.end, pieces_);
    store_.gradients(layer, slice.sample, slice.end, gradients_);
    attention_.backward({queries.view().middle_rows(row, rows), std::span(&positions, 1)},
                        {out.view().middle_rows(row, rows), lse.view().middle_rows(row, rows),
                         dout.view().middle_rows(row, rows)},
                        pieces_, dqueries.view().middle_rows(row, rows), gradients_);
  });
  exchange_.to_tokens(task, dqueries.view(), dq);
}

#define SLIMPACK_INSTANTIATE(Real)                                                                          \
  template void PackAttention<Real>::store(const StageTask&, std::size_t, const MatrixView<const Real>&,    \
                                           const MatrixView<const Real>&);                                  \
  template void PackAttention<Real>::gradients(const StageTask&, std::size_t, const MatrixView<Real>&,      \
                                               const MatrixView<Real>&);                                    \
  template void PackAttention<Real>::heads_forward(const StageTask&, std::size_t,                           \
                                                   const MatrixView<const Real>&,                           \
                                                   const AttentionState<Real>&, const MatrixView<Real>&);   \
  template void PackAttention<Real>::heads_backward(                                                        \
      const StageTask&, std::size_t, const MatrixView<const Real>&, const typename Attention<Real>::Saved&, \
      const MatrixView<Real>&);
SLIMPACK_INSTANTIATE(float)
SLIMPACK_INSTANTIATE(double)

}  // namespace slimpack::kernels
