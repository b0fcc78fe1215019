#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/model/parallel.hpp"

namespace oracle {

using namespace slimpack;

/// Lengths of a kind of batch: 0 heavy tail, 1 all equal, 2 one giant, 3 uniform.
inline std::vector<Tokens> random_lengths(std::mt19937& random, std::size_t n, int kind, Tokens most) {
  std::vector<Tokens> lengths;
  std::lognormal_distribution<double> tail(4.0, 1.6);
  std::uniform_int_distribution<Tokens> uniform(1, most);
  const Tokens equal = std::uniform_int_distribution<Tokens>(1, most / 4 + 1)(random);
  for (std::size_t i = 0; i < n; ++i) {
    const Tokens heavy = std::clamp<Tokens>(static_cast<Tokens>(tail(random)), 1, most);
    lengths.push_back(kind == 0   ? heavy
                      : kind == 1 ? equal
                      : kind == 2 ? std::min<Tokens>(heavy, 40)
                                  : uniform(random));
  }
  if (kind == 2) lengths[n / 2] = most;
  return lengths;
}

/// A small model on small devices, on which memory and compute both bind.
inline Job random_job(std::mt19937& random, std::int32_t dp, double memory_bytes) {
  const auto pick = [&](std::int32_t lo, std::int32_t hi) {
    return std::uniform_int_distribution<std::int32_t>(lo, hi)(random);
  };
  const std::int32_t pp = pick(1, 4);
  return {.model = {"tiny", pp * pick(1, 3), 64, 4, 2, 16, 160, 500},
          .device = {.name = "small",
                     .peak_flops = 1e12,
                     .gemm_efficiency = 0.5,
                     .gemm_backward_efficiency = 0.6,
                     .attention_forward = 0.4,
                     .attention_backward = 0.3,
                     .memory_bytes = memory_bytes,
                     .memory_bandwidth = 1e11,
                     .pack_overhead = 2e-6,
                     .intra_node = {1e10, 1e-6},
                     .inter_node = {1e9, 2e-6},
                     .host = {1e9, 1e-6},
                     .devices_per_node = 4},
          .layout = {.dp = dp, .tp = pick(0, 3) == 0 ? 2 : 1, .cp = 1, .pp = pp}};
}

}  // namespace oracle
