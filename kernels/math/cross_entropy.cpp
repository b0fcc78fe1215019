#include "kernels/math/cross_entropy.hpp"

#include <cmath>
#include <cstddef>

#include "kernels/math/eigen_private.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

void require_labels(std::size_t tokens, std::size_t vocab, std::span<const std::int32_t> labels) {
  require(labels.size() == tokens, "there are ", labels.size(), " labels for ", tokens,
          " tokens; expected one each");
  for (std::size_t t = 0; t < tokens; ++t) {
    require(labels[t] == no_label || (labels[t] >= 0 && static_cast<std::size_t>(labels[t]) < vocab),
            "label of token ", t, " is ", labels[t], "; expected -1 or a number below the vocabulary of ",
            vocab);
  }
}

template <class Row>
[[nodiscard]] auto log_sum_exp(const Row& logits) {
  const auto most = logits.maxCoeff();
  return most + std::log((logits - most).exp().sum());
}

}  // namespace

template <class Real>
double cross_entropy(const MatrixView<const Real>& logits, std::span<const std::int32_t> labels) {
  require_labels(logits.rows, logits.cols, labels);
  double sum = 0.0;
  for (std::size_t t = 0; t < logits.rows; ++t) {
    if (labels[t] == no_label) continue;
    const auto row = detail::array(logits.row(t), logits.cols);
    sum += static_cast<double>(log_sum_exp(row) - row[labels[t]]);
  }
  return sum;
}

template <class Real>
void cross_entropy_backward(const MatrixView<Real>& logits, std::span<const std::int32_t> labels,
                            double scale) {
  require_labels(logits.rows, logits.cols, labels);
  const auto factor = static_cast<Real>(scale);
  for (std::size_t t = 0; t < logits.rows; ++t) {
    auto row = detail::array(logits.row(t), logits.cols);
    if (labels[t] == no_label) {
      row.setZero();
      continue;
    }
    const Real lse = log_sum_exp(row);
    row = factor * (row - lse).exp();
    row[labels[t]] -= factor;
  }
}

#define SLIMPACK_INSTANTIATE(Real)                                                             \
  template double cross_entropy(const MatrixView<const Real>&, std::span<const std::int32_t>); \
  template void cross_entropy_backward(const MatrixView<Real>&, std::span<const std::int32_t>, double);
SLIMPACK_INSTANTIATE(float)
SLIMPACK_INSTANTIATE(double)

}  // namespace slimpack::kernels
