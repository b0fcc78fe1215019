#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/device/block.hpp"
#include "kernels/math/adamw.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// A step on the master weights, and their copies for the next pass.
struct AdamWKernel {
  float* weights = nullptr;
  Bf16* copies = nullptr;
  const float* gradients = nullptr;
  float *first = nullptr, *second = nullptr;
  std::size_t size = 0;
  float beta1 = 0, beta2 = 0, correction1 = 0, correction2 = 0, rate = 0, epsilon = 0, kept = 0;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for_each_in_grid<1>(warp, size, [&](int, std::size_t i) {
      const float g = gradients[i];
      const float m = beta1 * first[i] + (1.0F - beta1) * g;
      const float v = beta2 * second[i] + (1.0F - beta2) * g * g;
      const float w = kept * weights[i] - rate * (correction1 * m / (sqrtf(correction2 * v) + epsilon));
      first[i] = m;
      second[i] = v;
      weights[i] = w;
      copies[i] = to_bf16(w);
    });
  }
};

/// `adamw` by any launcher; see there.
template <class Launch>
void adamw_by(Launch&& launch, std::span<float> weights, std::span<Bf16> copies,
              std::span<const float> gradients, std::span<float> first, std::span<float> second,
              std::int64_t step, const AdamWOptions& o) {
  require(o.learning_rate > 0, "learning_rate is ", o.learning_rate, "; expected a positive number");
  require(o.beta1 >= 0 && o.beta1 < 1, "beta1 is ", o.beta1, "; expected a number in [0, 1)");
  require(o.beta2 >= 0 && o.beta2 < 1, "beta2 is ", o.beta2, "; expected a number in [0, 1)");
  require(o.epsilon > 0, "epsilon is ", o.epsilon, "; expected a positive number");
  require(o.weight_decay >= 0, "weight_decay is ", o.weight_decay, "; expected at least 0");
  require(step >= 1, "step is ", step, "; expected at least 1");
  const std::size_t n = weights.size();
  require(copies.size() == n && gradients.size() == n && first.size() == n && second.size() == n,
          "there are ", n, " weights, ", copies.size(), " copies, ", gradients.size(),
          " gradients and moments of ", first.size(), " and ", second.size(), "; expected equally many");
  if (n == 0) return;
  const auto t = static_cast<double>(step);
  launch(AdamWKernel{.weights = weights.data(),
                     .copies = copies.data(),
                     .gradients = gradients.data(),
                     .first = first.data(),
                     .second = second.data(),
                     .size = n,
                     .beta1 = static_cast<float>(o.beta1),
                     .beta2 = static_cast<float>(o.beta2),
                     .correction1 = static_cast<float>(1.0 / (1.0 - std::pow(o.beta1, t))),
                     .correction2 = static_cast<float>(1.0 / (1.0 - std::pow(o.beta2, t))),
                     .rate = static_cast<float>(o.learning_rate),
                     .epsilon = static_cast<float>(o.epsilon),
                     .kept = static_cast<float>(1.0 - o.learning_rate * o.weight_decay)},
         Grid{.blocks = blocks_for((n + 127) / 128), .warps = 4});
}

}  // namespace slimpack::kernels::cuda
