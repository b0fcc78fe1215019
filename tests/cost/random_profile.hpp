#pragma once

#include <random>

#include "slimpack/cost/profile.hpp"

namespace slimpack::testing {

/// What the machines below were measured for.
[[nodiscard]] inline Transformer profiled_model() { return {"tiny", 5, 64, 4, 2, 16, 96, 300}; }

/// A machine with known constants. @param slices whether slices and keys have a price.
[[nodiscard]] inline Profile machine(unsigned seed, bool slices) {
  std::mt19937 random(seed);
  const auto number = [&](double size) {
    return size * std::uniform_real_distribution<double>(0.5, 2.0)(random);
  };
  const auto rates = [&] {
    return PackRates{.per_pack = number(2e-5),
                     .per_slice = slices ? number(3e-6) : 0.0,
                     .per_key = slices ? number(5e-9) : 0.0,
                     .per_token = number(1e-6),
                     .per_twice_pair = number(1e-9)};
  };
  const auto end = [&](double per_pack, double per_token) {
    return PackRates{.per_pack = number(per_pack), .per_token = number(per_token)};
  };
  const auto pass = [&] {
    return PassRates{
        .layer = rates(), .stage = end(1e-5, 1e-8), .first = end(2e-6, 2e-8), .last = end(1e-5, 2e-6)};
  };
  return {.model = profiled_model(),
          .real_bytes = 4,
          .machine = "made up",
          .date = "2025-01-31",
          .forward = pass(),
          .backward = pass(),
          .recompute = rates(),
          .transfer = {.bandwidth = 1e9, .latency = 2e-6},
          .optimiser_seconds_per_parameter = 1e-9,
          .operators = {{"rms_norm", 1e-10}},
          .fit = {10, 0.01, 0.02},
          .held_out = {5, 0.02, 0.04}};
}

/// The same of a GPU.
[[nodiscard]] inline Profile gpu_machine(unsigned seed) {
  Profile p = machine(seed, seed % 2 == 0);
  p.real_bytes = 2;
  p.device = {.memory_bytes = 8e10, .peak_flops = 7e14 + seed, .memory_bandwidth = 3e12};
  p.device->attention_forward = attention_share(p, Pass::forward, p.device->peak_flops);
  p.device->attention_backward = attention_share(p, Pass::backward, p.device->peak_flops);
  return p;
}

}  // namespace slimpack::testing
