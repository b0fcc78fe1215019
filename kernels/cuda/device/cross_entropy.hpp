#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/device/block.hpp"
#include "kernels/math/cross_entropy.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// What a token has gathered from the parts of the vocabulary that it has met: a softmax that is still open.
struct LogitState {
  float maximum = -INFINITY;  ///< of the logits
  float sum = 0;              ///< of exp(logit - maximum)
  float label = 0;            ///< the label's logit, once it was met
};

/// The state of both parts' logits.
[[nodiscard]] SLIMPACK_HOST_DEVICE inline LogitState merge(const LogitState& a, const LogitState& b) {
  LogitState out;
  out.maximum = a.maximum > b.maximum ? a.maximum : b.maximum;
  // Where nothing was met, -inf minus -inf would be no number.
  const float of_a = a.sum > 0 ? a.sum * expf(a.maximum - out.maximum) : 0.0F;
  const float of_b = b.sum > 0 ? b.sum * expf(b.maximum - out.maximum) : 0.0F;
  out.sum = of_a + of_b;
  out.label = a.label + b.label;
  return out;
}

/// A block per token: adds a part of its logits to its state.
template <int n>
struct CrossEntropyKernel {
  MatrixView<const Bf16> logits;  ///< [tokens x part of the vocabulary]
  std::size_t first = 0;          ///< of the vocabulary, where the part begins
  const std::int32_t* labels = nullptr;
  LogitState* states = nullptr;
  bool begin = true;  ///< this is the first part

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    auto* scratch = reinterpret_cast<LogitState*>(warp.shared());
    for (std::size_t row = warp.block(); row < logits.rows; row += warp.blocks()) {
      LanesOf<Warp, LogitState> mine{};
      const std::int32_t label = labels[row];
      if (label >= 0) {
        for_each_in_block<n>(warp, logits.cols, [&](int lane, std::size_t i) {
          const Pack<n> values = load<n>(row_of(logits, row) + i);
          LogitState state = mine[lane];
          float most = state.maximum;
          SLIMPACK_UNROLL
          for (int j = 0; j < n; ++j) most = values.at[j] > most ? values.at[j] : most;
          float sum = state.sum > 0 ? state.sum * expf(state.maximum - most) : 0.0F;
          SLIMPACK_UNROLL
          for (int j = 0; j < n; ++j) {
            sum += expf(values.at[j] - most);
            if (first + i + static_cast<std::size_t>(j) == static_cast<std::size_t>(label))
              state.label = values.at[j];
          }
          state.maximum = most;
          state.sum = sum;
          mine[lane] = state;
        });
      }
      const LogitState part = combine_block<Warp, LogitState>(
          warp, mine, scratch, [](const LogitState& a, const LogitState& b) { return merge(a, b); });
      warp.lanes([&](int lane) {
        if (warp.warp() == 0 && lane == 0) states[row] = begin ? part : merge(states[row], part);
      });
    }
  }
};

/// One block: adds the tokens' losses to the sum of all, in an order that depends on their number alone.
struct LossKernel {
  const LogitState* states = nullptr;
  const std::int32_t* labels = nullptr;
  std::size_t tokens = 0;
  double* loss = nullptr;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    auto* scratch = reinterpret_cast<double*>(warp.shared());
    LanesOf<Warp, double> losses{};
    for_each_in_block<1>(warp, tokens, [&](int lane, std::size_t t) {
      if (labels[t] < 0) return;
      losses[lane] += static_cast<double>(states[t].maximum - states[t].label + logf(states[t].sum));
    });
    const double sum =
        combine_block<Warp, double>(warp, losses, scratch, [](double a, double b) { return a + b; });
    warp.lanes([&](int lane) {
      if (warp.warp() == 0 && lane == 0) *loss += sum;
    });
  }
};

/// A block per token: replaces a part of its logits by the gradient.
template <int n>
struct CrossEntropyBackwardKernel {
  MatrixView<Bf16> logits;
  std::size_t first = 0;
  const std::int32_t* labels = nullptr;
  const LogitState* states = nullptr;
  float scale = 1;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for (std::size_t row = warp.block(); row < logits.rows; row += warp.blocks()) {
      const std::int32_t label = labels[row];
      const float lse = label >= 0 ? states[row].maximum + logf(states[row].sum) : 0.0F;
      for_each_in_block<n>(warp, logits.cols, [&](int, std::size_t i) {
        Pack<n> values = load<n>(row_of(logits, row) + i);
        SLIMPACK_UNROLL
        for (int j = 0; j < n; ++j) {
          const bool is_label = first + i + static_cast<std::size_t>(j) == static_cast<std::size_t>(label);
          values.at[j] = label >= 0 ? scale * (expf(values.at[j] - lse) - (is_label ? 1.0F : 0.0F)) : 0.0F;
        }
        store(row_of(logits, row) + i, values);
      });
    }
  }
};

namespace detail {

inline void require_logits(std::size_t tokens, std::size_t labels, std::size_t states) {
  require(labels == tokens && states == tokens, "there are ", labels, " labels and ", states, " states for ",
          tokens, " tokens; expected one each");
}

}  // namespace detail

/// `cross_entropy_part` by any launcher; see there.
template <class Launch>
void cross_entropy_part_by(Launch&& launch, const MatrixView<const Bf16>& logits, std::size_t first,
                           std::span<const std::int32_t> labels, std::span<LogitState> states) {
  detail::require_logits(logits.rows, labels.size(), states.size());
  require(logits.cols > 0, "a part of the vocabulary is empty; expected at least 1 entry");
  if (logits.rows == 0) return;
  const auto start = [&](auto kernel) {
    kernel.logits = logits, kernel.first = first, kernel.labels = labels.data(),
    kernel.states = states.data();
    kernel.begin = first == 0;
    launch(kernel, Grid{.blocks = blocks_for(logits.rows), .warps = 8, .shared = 8 * sizeof(LogitState)});
  };
  in_packs(logits) ? start(CrossEntropyKernel<8>{}) : start(CrossEntropyKernel<1>{});
}

/// `cross_entropy_loss` by any launcher; see there.
template <class Launch>
void cross_entropy_loss_by(Launch&& launch, std::span<const std::int32_t> labels,
                           std::span<const LogitState> states, double* loss) {
  detail::require_logits(labels.size(), labels.size(), states.size());
  if (labels.empty()) return;
  launch(LossKernel{states.data(), labels.data(), labels.size(), loss},
         Grid{.blocks = 1, .warps = 8, .shared = 8 * sizeof(double)});
}

/// `cross_entropy_backward` by any launcher; see there.
template <class Launch>
void cross_entropy_backward_by(Launch&& launch, const MatrixView<Bf16>& logits, std::size_t first,
                               std::span<const std::int32_t> labels, std::span<const LogitState> states,
                               double scale) {
  detail::require_logits(logits.rows, labels.size(), states.size());
  if (logits.rows == 0 || logits.cols == 0) return;
  const auto start = [&](auto kernel) {
    kernel.logits = logits, kernel.first = first, kernel.labels = labels.data(),
    kernel.states = states.data();
    kernel.scale = static_cast<float>(scale);
    launch(kernel, Grid{.blocks = blocks_for(logits.rows), .warps = 8});
  };
  in_packs(logits) ? start(CrossEntropyBackwardKernel<8>{}) : start(CrossEntropyBackwardKernel<1>{});
}

}  // namespace slimpack::kernels::cuda
