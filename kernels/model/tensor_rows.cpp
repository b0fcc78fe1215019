#include "kernels/model/tensor_rows.hpp"

#include <algorithm>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

template <class Real>
void TensorRows<Real>::begin_task(const StageTask& task, const TensorShare& share) {
  share_ = share;
  if (share.size == 1) return;
  require(static_cast<bool>(exchange_), to_string(task), " is run by ", share.size,
          " tensor-parallel ranks; expected an exchange between them");
  rows_.resize(share.size);
  for (auto& rows : rows_) rows.clear();
  std::size_t row = 0;
  for (const Slice& slice : task.owned) {
    for (Tokens t = slice.begin; t < slice.end; ++t) rows_[share.owner(slice.sample, t)].push_back(row++);
  }
}

template <class Real>
template <class T>
std::vector<std::span<T>> TensorRows<Real>::blocks(T* numbers, std::size_t cols, bool own_of_each) const {
  std::vector<std::span<T>> blocks;
  blocks.reserve(rows_.size());
  for (const auto& rows : rows_) {
    const std::size_t size = (own_of_each ? rows_[share_.rank] : rows).size() * cols;
    blocks.emplace_back(numbers, size);
    numbers += size;
  }
  return blocks;
}

template <class Real>
MatrixView<const Real> TensorRows<Real>::gather(const MatrixView<const Real>& own,
                                                const MatrixView<Real>& message,
                                                const MatrixView<Real>& whole) {
  if (share_.size == 1) return own;
  const std::vector<std::span<const Real>> out(share_.size, {own.data, own.rows * own.cols});
  exchange_(out, blocks(message.data, own.cols, false));
  const Real* from = message.data;
  std::size_t tokens = 0;
  for (const auto& rows : rows_) {
    for (const std::size_t row : rows) {
      std::copy_n(from, own.cols, whole.row(row));
      from += own.cols;
    }
    tokens += rows.size();
  }
  return whole.middle_rows(0, tokens);
}

template <class Real>
void TensorRows<Real>::reduce(const MatrixView<Real>& whole, const MatrixView<Real>& message,
                              const MatrixView<Real>& own, Update update) {
  const std::size_t cols = whole.cols;
  Real* to = message.data;
  for (const auto& rows : rows_) {
    for (const std::size_t row : rows) to = std::copy_n(whole.row(row), cols, to);
  }
  exchange_(blocks<const Real>(message.data, cols, false), blocks(whole.data, cols, true));
  const std::size_t numbers = own.rows * cols;
  for (std::size_t i = 0; i < numbers; ++i) {
    Real sum = whole.data[i];
    for (std::size_t rank = 1; rank < share_.size; ++rank) sum += whole.data[rank * numbers + i];
    own.data[i] = update == Update::add ? own.data[i] + sum : sum;
  }
}

template <class Real>
void TensorRows<Real>::share(std::span<const Real> own, std::span<Real> all) {
  const std::vector<std::span<const Real>> out(share_.size, own);
  std::vector<std::span<Real>> in;
  for (std::size_t rank = 0; rank < share_.size; ++rank)
    in.push_back(all.subspan(rank * own.size(), own.size()));
  exchange_(out, in);
}

template class TensorRows<float>;
template class TensorRows<double>;

}  // namespace slimpack::kernels
