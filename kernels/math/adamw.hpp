#pragma once

#include <cstdint>
#include <span>

namespace slimpack::kernels {

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
};

/// One step of AdamW (Loshchilov and Hutter, Algorithm 2) on any part of the weights: moments are corrected
/// for their start at zero, decay is decoupled from the gradient.
/// @param weights, gradients, first, second of equal size; the moments are zero before the first step.
/// @param step number of this step, from 1.
/// @throws InvalidInput if sizes differ, step is below 1, or an option is impossible. O(weights).
template <class Real>
void adamw(std::span<Real> weights, std::span<const Real> gradients, std::span<Real> first,
           std::span<Real> second, std::int64_t step, const AdamWOptions& options = {});

}  // namespace slimpack::kernels
