#pragma once

#include <cstdint>
#include <random>
#include <utility>

#include "bench/gpu/stage_run.hpp"
#include "slimpack/exec/whole_stages.hpp"
#include "tests/kernels/drive.hpp"

namespace slimpack::testing {

/// A model that the GPU's kernels know, of as many layers as the plan's.
[[nodiscard]] inline Transformer gpu_model(std::mt19937& random, std::int32_t layers) {
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  Transformer m{"small", layers, 8 * pick(8, 12), 0, pick(1, 2), 64, 8 * pick(8, 20), pick(50, 110)};
  m.heads = m.kv_heads * pick(1, 2);
  return m;
}

[[nodiscard]] inline bench::StageCase case_of(Plan plan, unsigned seed) {
  std::mt19937 random(seed);
  bench::StageCase c{.plan = whole_stages(std::move(plan)), .model = {}, .ids = {}, .options = {}};
  c.model = gpu_model(random, c.plan.model.layers);
  c.ids = random_ids(random, c.plan, c.model.vocab);
  c.options.stage.head_chunk_tokens = 1 + random() % 60;
  c.options.init = {.seed = seed, .deviation = 0.05};
  c.options.shard_optimiser = seed % 2 == 0;
  c.options.loop.window = 1 + seed % 3;
  return c;
}

}  // namespace slimpack::testing
