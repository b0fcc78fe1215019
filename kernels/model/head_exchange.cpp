#include "kernels/model/head_exchange.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/model/member_rows.hpp"

namespace slimpack::kernels {

namespace {

std::size_t sum(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

}  // namespace

template <class Real>
void HeadExchange<Real>::begin_task(const StageTask& task, const SampleOwners& owners) {
  require(static_cast<bool>(exchange_), to_string(task), " is merged; expected an all-to-all between its ",
          task.members.size(), " members");
  member_rows(task, owners, rows_);
}

template <class Real>
void HeadExchange<Real>::set_sizes(const StageTask& task, std::size_t columns, bool tokens_to_heads) {
  send_sizes_.clear();
  receive_sizes_.clear();
  for (const auto& rows : rows_) {
    const std::size_t others = rows.size() * columns, own = rows_[task.member].size() * columns;
    send_sizes_.push_back(tokens_to_heads ? own : others);
    receive_sizes_.push_back(tokens_to_heads ? others : own);
  }
}

template <class Real>
void HeadExchange<Real>::to_heads(const StageTask& task, const MatrixView<const Real>& tokens,
                                  const MatrixView<Real>& heads) {
  set_sizes(task, heads.cols, true);
  const Lease<Real> send(memory_, sum(send_sizes_), " at ", to_string(task));
  const Lease<Real> receive(memory_, sum(receive_sizes_), " at ", to_string(task));
  Real* to = send.data();
  for (std::size_t m = 0; m < rows_.size(); ++m) {
    for (std::size_t r = 0; r < tokens.rows; ++r)
      to = std::copy_n(tokens.row(r) + m * heads.cols, heads.cols, to);
  }
  exchange_(task, {send.data(), sum(send_sizes_)}, send_sizes_, {receive.data(), sum(receive_sizes_)},
            receive_sizes_);
  const Real* from = receive.data();
  for (const auto& rows : rows_) {
    for (const std::size_t row : rows) {
      std::copy_n(from, heads.cols, heads.row(row));
      from += heads.cols;
    }
  }
}

template <class Real>
void HeadExchange<Real>::to_tokens(const StageTask& task, const MatrixView<const Real>& heads,
                                   const MatrixView<Real>& tokens) {
  set_sizes(task, heads.cols, false);
  const Lease<Real> send(memory_, sum(send_sizes_), " at ", to_string(task));
  const Lease<Real> receive(memory_, sum(receive_sizes_), " at ", to_string(task));
  Real* to = send.data();
  for (const auto& rows : rows_) {
    for (const std::size_t row : rows) to = std::copy_n(heads.row(row), heads.cols, to);
  }
  exchange_(task, {send.data(), sum(send_sizes_)}, send_sizes_, {receive.data(), sum(receive_sizes_)},
            receive_sizes_);
  const Real* from = receive.data();
  for (std::size_t m = 0; m < rows_.size(); ++m) {
    for (std::size_t r = 0; r < tokens.rows; ++r) {
      Real* row = tokens.row(r) + m * heads.cols;
      for (std::size_t c = 0; c < heads.cols; ++c) row[c] += *from++;
    }
  }
}

template class HeadExchange<float>;
template class HeadExchange<double>;

}  // namespace slimpack::kernels
