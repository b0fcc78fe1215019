#include "kernels/math/cross_entropy.hpp"

#include <algorithm>
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

template <class Real>
void vocabulary_scores(const MatrixView<const Real>& logits, std::span<const std::int32_t> labels,
                       std::size_t first, const MatrixView<Real>& scores) {
  require(labels.size() == logits.rows, "there are ", labels.size(), " labels for ", logits.rows,
          " tokens; expected one each");
  for (std::size_t t = 0; t < logits.rows; ++t) {
    const auto row = detail::array(logits.row(t), logits.cols);
    const auto most = row.maxCoeff();
    const std::size_t label =
        static_cast<std::size_t>(labels[t]) - first;  // far away if it is of another part
    Real* to = scores.row(t);
    to[0] = most;
    to[1] = (row - most).exp().sum();
    to[2] = labels[t] != no_label && label < logits.cols ? row[static_cast<std::ptrdiff_t>(label)] : Real{0};
  }
}

template <class Real>
double combined_cross_entropy(const MatrixView<Real>& scores, std::span<const std::int32_t> labels) {
  const std::size_t tokens = labels.size();
  double total = 0.0;
  for (std::size_t t = 0; t < tokens; ++t) {
    Real most = scores.row(t)[0], sum = 0, label = 0;
    for (std::size_t at = t; at < scores.rows; at += tokens) most = std::max(most, scores.row(at)[0]);
    for (std::size_t at = t; at < scores.rows; at += tokens) {
      sum += scores.row(at)[1] * std::exp(scores.row(at)[0] - most);
      label += scores.row(at)[2];
    }
    const Real lse = most + std::log(sum);
    scores.row(t)[0] = lse;
    if (labels[t] != no_label) total += static_cast<double>(lse - label);
  }
  return total;
}

template <class Real>
void cross_entropy_backward(const MatrixView<Real>& logits, std::span<const std::int32_t> labels,
                            std::size_t first, const MatrixView<const Real>& lse, double scale) {
  const auto factor = static_cast<Real>(scale);
  for (std::size_t t = 0; t < logits.rows; ++t) {
    auto row = detail::array(logits.row(t), logits.cols);
    if (labels[t] == no_label) {
      row.setZero();
      continue;
    }
    row = factor * (row - lse.row(t)[0]).exp();
    const std::size_t label = static_cast<std::size_t>(labels[t]) - first;
    if (label < logits.cols) row[static_cast<std::ptrdiff_t>(label)] -= factor;
  }
}

#define SLIMPACK_INSTANTIATE(Real)                                                                           \
  template double cross_entropy(const MatrixView<const Real>&, std::span<const std::int32_t>);               \
  template void cross_entropy_backward(const MatrixView<Real>&, std::span<const std::int32_t>, double);      \
  template void vocabulary_scores(const MatrixView<const Real>&, std::span<const std::int32_t>, std::size_t, \
                                  const MatrixView<Real>&);                                                  \
  template double combined_cross_entropy(const MatrixView<Real>&, std::span<const std::int32_t>);            \
  template void cross_entropy_backward(const MatrixView<Real>&, std::span<const std::int32_t>, std::size_t,  \
                                       const MatrixView<const Real>&, double);
SLIMPACK_INSTANTIATE(float)
SLIMPACK_INSTANTIATE(double)

}  // namespace slimpack::kernels
