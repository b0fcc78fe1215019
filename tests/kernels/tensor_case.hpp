#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "slimpack/exec/context_members.hpp"
#include "tests/kernels/executor_case.hpp"
#include "tests/plan/sample_plan.hpp"

// Training runs on pipelines of any tensor parallelism.
namespace slimpack::testing {

/// Pipelines of a case: the tensor parallelism of each and the layers of its stages.
struct Pipelines {
  std::vector<std::int32_t> tp;
  std::vector<std::vector<std::int32_t>> layers;
  std::size_t merged = 0;  ///< samples that all run together
  std::int32_t cp = 1;
};

/// A model that tensor-parallel ranks can share, most sizes of which they can't share equally.
[[nodiscard]] inline Transformer shared_model(std::mt19937& random, const Plan& plan, std::int32_t kv_heads) {
  Transformer model = small_model(random, plan);
  model.kv_heads = kv_heads;
  model.heads = kv_heads * static_cast<std::int32_t>(1 + random() % 2);
  model.ffn = std::max(model.ffn, kv_heads);
  model.vocab = std::max(model.vocab, kv_heads);
  return model;
}

[[nodiscard]] inline ExecutorCase tensor_case(const Pipelines& pipelines, unsigned seed) {
  ExecutorCase c{.plan = sample_plan({.seed = seed,
                                      .samples = 3 + seed % 4,
                                      .merged = pipelines.merged,
                                      .members = pipelines.layers.size(),
                                      .max_tokens = 25,
                                      .cp = pipelines.cp,
                                      .split_weights = seed % 3 == 0,
                                      .layers = pipelines.layers}),
                 .model = {},
                 .ids = {},
                 .options = {},
                 .seed = seed};
  for (std::size_t p = 0; p < pipelines.tp.size(); ++p) c.plan.pipelines[p].tp = pipelines.tp[p];
  if (pipelines.cp > 1) c.plan = context_ranks_as_members(c.plan, 1 + Tokens(seed % 5));
  std::mt19937 random(seed);
  std::int32_t kv_heads = 1;
  for (const std::int32_t tp : pipelines.tp) kv_heads = std::lcm(kv_heads, tp);
  if (pipelines.merged > 0 || pipelines.cp > 1) {
    c.options.stage.merged = seed % 2 == 0 ? kernels::MergedAttention::ring : kernels::MergedAttention::heads;
    kv_heads *= static_cast<std::int32_t>(c.plan.pipelines.size());
  }
  c.model = shared_model(random, c.plan, kv_heads * static_cast<std::int32_t>(1 + random() % 2));
  c.ids = random_ids(random, c.plan, c.model.vocab);
  c.options.stage.ring_tokens = 1 + random() % 30;
  c.options.stage.page_tokens = 1 + random() % 40;
  c.options.stage.head_chunk_tokens = 1 + random() % 40;
  c.options.init = {.seed = seed, .deviation = 0.4};
  c.options.shard_optimiser = seed % 2 == 0;
  c.options.block = 1 + Tokens(seed % 5);
  return c;
}

/// Of 2 to 8 ranks.
inline const std::vector<Pipelines> all_pipelines{
    {{2}, {{3}}},
    {{2}, {{1, 2}}},
    {{4}, {{2}}},
    {{2}, {{1, 0, 2}}},
    {{3}, {{1, 2}}},
    {{2, 2}, {{2}, {1, 1}}},
    {{2, 1}, {{2}, {1, 1}}},
    {{1, 2, 4}, {{3}, {3}, {3}}},
    {{2, 3}, {{2}, {2}}},
    {{4, 2, 1}, {{2}, {2}, {1, 1}}},
    {{2, 2}, {{2}, {2}}, 2},
    {{2, 2}, {{1, 1}, {1, 1}}, 3},
    {{2}, {{1, 1}}, 0, 2},
};

}  // namespace slimpack::testing
