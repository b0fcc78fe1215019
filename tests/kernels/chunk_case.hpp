#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "kernels/model/memory.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/chunk_pipelines.hpp"
#include "tests/kernels/executor_case.hpp"

// Plans of chunks of which each recomputes another number of layers, for the CPU executor.
namespace slimpack::testing {

/// A batch for pipelines of chunks, and the model that they train.
struct ChunkBatch {
  Job job;
  std::vector<Tokens> lengths;
  kernels::StageOptions stage;

  /// What stages hold that train in `float`, each with all moments of its weights, if they may use so many bytes.
  [[nodiscard]] kernels::CpuMemory memory(double limit_bytes) const {
    kernels::StageOptions options = stage;
    options.limit_bytes = limit_bytes;
    return {job.model, split_layers(job.model.layers, job.layout.pp), sizeof(float), options};
  }

  [[nodiscard]] Plan plan(double limit_bytes, const ChunkPlanOptions& options) const {
    return plan_chunks("infinipipe", lengths, job, CalibratedCost(job), memory(limit_bytes),
                       assumed_attention(job), options);
  }

  /// To be run, with gradients that can be compared.
  [[nodiscard]] ExecutorCase executor_case(Plan plan, unsigned seed) const {
    std::mt19937 random(seed);
    ExecutorCase c{.plan = std::move(plan), .model = job.model, .ids = {}, .options = {}, .seed = seed};
    c.ids = random_ids(random, c.plan, c.model.vocab);
    c.options.stage = stage;
    c.options.init = {.seed = seed, .deviation = 0.2};
    c.options.shard_optimiser = false;
    return c;
  }
};

/// Short samples and one or two long ones for each pipeline; one or two pipelines of so many stages.
/// @param scale of samples and model; 1 is small enough for plain loops.
[[nodiscard]] inline ChunkBatch random_chunk_batch(std::mt19937& random, std::int32_t stages, int scale) {
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  ChunkBatch batch;
  const std::int32_t layers = stages * pick(2, 3) + pick(0, stages - 1);
  const std::int32_t kv_heads = pick(1, 2), heads = kv_heads * pick(1, 2);
  batch.job = {{"chunks", layers, scale * pick(8, 16), heads, kv_heads, scale * 2 * pick(2, 4),
                scale * pick(20, 40), 24},
               device_preset("cpu"),
               {.dp = pick(1, 2), .pp = stages}};
  for (int i = pick(6, 12) * batch.job.layout.dp; i > 0; --i) batch.lengths.push_back(scale * pick(15, 90));
  for (int i = pick(1, 2) * batch.job.layout.dp; i > 0; --i) batch.lengths.push_back(scale * pick(300, 500));
  return batch;
}

/// What plans of chunks had in them.
struct ChunksSeen {
  std::set<std::size_t> pipelines;               ///< numbers of them
  std::size_t split = 0, hybrid = 0, whole = 0;  ///< chunks of each kind
  std::size_t unlike_packs = 0;   ///< stages on which chunks recompute different numbers of layers
  std::size_t unlike_stages = 0;  ///< chunks that recompute different numbers of layers on their stages

  void count(const Plan& plan) {
    pipelines.insert(plan.pipelines.size());
    const auto cut = [&](const Slice& slice) { return slice.size() < plan.tokens[slice.sample]; };
    const auto& recompute = plan.backward.recompute_layers;
    std::map<std::pair<PipelineId, std::size_t>, std::set<std::int32_t>> numbers;
    for (std::size_t k = 0; k < plan.backward.packs.size(); ++k) {
      const auto slices = plan.backward.packs[k];
      const bool any = std::any_of(slices.begin(), slices.end(), cut);
      ++(!any ? whole : slices.size() == 1 ? split : hybrid);
      const std::span<const std::int32_t> row = recompute[k];
      unlike_stages += std::set(row.begin(), row.end()).size() > 1;
      for (std::size_t s = 0; s < row.size(); ++s) numbers[{plan.backward.pipelines[k][0], s}].insert(row[s]);
    }
    for (const auto& [stage, different] : numbers) unlike_packs += different.size() > 1;
  }
};

/// A plan for so much memory.
struct ShortMemoryPlan {
  Plan plan;
  double limit_bytes = 0.0;
};

/// InfiniPipe's plan where memory is so short that chunks of a stage recompute different numbers of layers; nothing if none of
/// the limits that are tried has one.
[[nodiscard]] inline std::optional<ShortMemoryPlan> short_memory_plan(const ChunkBatch& batch) {
  const kernels::CpuMemory unlimited = batch.memory(1e15);
  ChunkPlanOptions chunk_options = infinipipe_options();
  chunk_options.level = false;  // the paper's algorithm makes chunks of all kinds
  chunk_options.schedule.orders = {PassOrder::packflow, PassOrder::steady};
  double fixed = 0.0, most = 0.0;
  for (const auto& stages : batch.plan(1e15, chunk_options).step.peak_bytes) {
    for (std::size_t s = 0; s < stages.size(); ++s) {
      fixed = std::max(fixed, unlimited.static_bytes(s));
      most = std::max(most, stages[s]);
    }
  }
  for (const double share : {0.5, 0.6, 0.7, 0.8, 0.4, 0.9}) {
    const double limit = fixed + share * (most - fixed);
    try {
      ShortMemoryPlan found{batch.plan(limit, chunk_options), limit};
      ChunksSeen seen;
      seen.count(found.plan);
      if (seen.unlike_packs > 0) return found;
    } catch (const InvalidInput&) {  // too little for any plan
    }
  }
  return std::nullopt;
}

/// Chunks of a fixed number of slices, each of which recomputes a random number of layers on each stage.
[[nodiscard]] inline Plan randomly_recomputed_plan(const ChunkBatch& batch, std::mt19937& random) {
  ChunkPlanOptions options = infinipipe_options();
  options.slices = 2 + random() % 6;
  Plan plan = batch.plan(1e15, options);
  for (std::size_t k = 0; k < plan.backward.packs.size(); ++k) {
    const std::vector<std::int32_t>& layers = plan.pipelines[plan.backward.pipelines[k][0]].layers;
    for (std::size_t s = 0; s < layers.size(); ++s)
      plan.backward.recompute_layers[k][s] = std::uniform_int_distribution(0, layers[s])(random);
  }
  return plan;
}

/// Calls `f(batch, plan and its limit, seed)` for `count` plans in short memory, of each number of stages from 1 to 4.
template <class F>
void for_each_short_memory_plan(unsigned count, int scale, F&& f) {
  for (unsigned stages = 1; stages <= 4; ++stages) {
    unsigned made = 0;
    for (unsigned seed = 100 * stages; made < count; ++seed) {
      REQUIRE(seed < 100 * stages + 10 * count);
      std::mt19937 random(seed);
      const ChunkBatch batch = random_chunk_batch(random, static_cast<std::int32_t>(stages), scale);
      const auto found = short_memory_plan(batch);
      if (!found) continue;
      INFO(stages << " stages, seed " << seed);
      f(batch, *found, seed);
      ++made;
    }
  }
}

/// The same with plans in which each chunk recomputes a random number of layers on each stage.
template <class F>
void for_each_randomly_recomputed_plan(unsigned count, F&& f) {
  for (unsigned stages = 1; stages <= 4; ++stages) {
    for (unsigned seed = 100 * stages; seed < 100 * stages + count; ++seed) {
      INFO(stages << " stages, seed " << seed);
      std::mt19937 random(seed);
      const ChunkBatch batch = random_chunk_batch(random, static_cast<std::int32_t>(stages), 1);
      f(batch, randomly_recomputed_plan(batch, random), seed);
    }
  }
}

}  // namespace slimpack::testing
