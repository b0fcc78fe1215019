#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "slimpack/milp/model.hpp"

namespace test {

/// Size of a checkpointing program, as InfiniPipe states it (section 3.3.3).
struct CheckpointingShape {
  std::size_t chunks = 16;
  std::size_t stages = 4;
  std::size_t layers = 32;  ///< of the model
  std::size_t prefill = 1;  ///< chunks that a stage holds before its first backward pass, the last stage
  double share = 0.5;       ///< of what can be saved that has to be, about
};

/// A random checkpointing program: sequences of 1 to `prefill` chunks, of which all but the last, the tail, are
/// about equally long. Each chunk has its bytes, and the bytes that a checkpointed layer saves. A sequence's
/// chunks run backward in reverse. The windows are all runs of dp - p + prefill chunks in forward order.
inline slimpack::MilpModel checkpointing_program(unsigned seed, const CheckpointingShape& shape) {
  std::mt19937_64 random(seed);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const std::size_t n = shape.chunks, dp = shape.stages;
  const double layers_per_stage = static_cast<double>(shape.layers) / static_cast<double>(dp);
  std::vector<double> bytes, saved;  // [chunk]
  std::vector<std::size_t> backward(n);
  while (bytes.size() < n) {
    const std::size_t first = bytes.size();
    const std::size_t length =
        std::min(n - first, std::uniform_int_distribution<std::size_t>(1, shape.prefill)(random));
    for (std::size_t k = 0; k < length; ++k) {
      const bool tail = k + 1 == length;
      const double tokens = tail ? uniform(0.2, 1.0) : uniform(0.9, 1.0);
      bytes.push_back(tokens * uniform(1.0, 1.1));
      saved.push_back(bytes.back() / layers_per_stage * uniform(0.5, 1.0));
      backward[first + k] = first + length - 1 - k;
    }
  }
  // The capacity at which the tightest window has to save the share of what it can.
  double capacity = 0.0;
  const auto for_each_window = [&](auto&& visit) {
    for (std::size_t p = 1; p <= dp; ++p) {
      const std::size_t width = std::min(n, dp - p + shape.prefill);
      for (std::size_t first = 0; first + width <= n; ++first) visit(p, first, width);
    }
  };
  const double most = std::floor(layers_per_stage);
  for_each_window([&](std::size_t, std::size_t first, std::size_t width) {
    double held = 0.0;
    for (std::size_t k = first; k < first + width; ++k) held += bytes[k] - shape.share * most * saved[k];
    capacity = std::max(capacity, held);
  });
  slimpack::MilpModel model;
  std::vector<slimpack::Term> objective, terms;
  for (std::size_t j = 0; j < n + dp - 1; ++j)
    objective.push_back({model.add_variable("", 0.0, most, slimpack::VariableKind::integer), 1.0});
  for_each_window([&](std::size_t p, std::size_t first, std::size_t width) {
    double held = 0.0;
    terms.clear();
    for (std::size_t k = first; k < first + width; ++k) {
      held += bytes[k];
      terms.push_back({static_cast<slimpack::VariableId>(backward[k] + dp - p), saved[k]});
    }
    if (held > capacity) model.add_row("", held - capacity, slimpack::no_bound, terms);
  });
  model.set_objective(slimpack::Direction::minimise, objective);
  return model;
}

/// A checkpointing program of a random shape: 12 to 48 chunks on 2, 4 or 8 stages.
inline slimpack::MilpModel random_checkpointing_program(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::size_t low, std::size_t high) { return low + random() % (high - low + 1); };
  CheckpointingShape shape;
  shape.chunks = pick(12, 48);
  shape.stages = std::size_t{1} << pick(1, 3);
  shape.layers = pick(0, 1) == 0 ? 32 : 80;
  shape.prefill = pick(1, 4);
  shape.share = 0.1 + 0.85 * static_cast<double>(pick(0, 999)) / 1000.0;
  return checkpointing_program(seed, shape);
}

}  // namespace test
