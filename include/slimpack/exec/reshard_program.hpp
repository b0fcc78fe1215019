#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/hash.hpp"
#include "slimpack/core/ragged.hpp"
#include "slimpack/exec/ranks.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/strategy/reshard.hpp"
#include "slimpack/strategy/reshard_steps.hpp"

namespace slimpack {

/// The strategy of a plan with the numbers of its ranks (`PlanRanks`) in place of ids of devices. Two plans fit together only if
/// they use the same devices.
/// @throws InvalidInput as `PlanRanks`, or if a pipeline has context parallelism. O(ranks).
[[nodiscard]] inline Strategy rank_strategy(const Plan& plan) {
  const PlanRanks ranks(plan);
  std::vector<PipelineSpec> pipelines;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    require(
        pipeline.cp == 1, "pipeline ", pipeline.id, " has cp ", pipeline.cp,
        "; expected 1: context_ranks_as_members(plan, block) has a pipeline for each context-parallel rank");
    PipelineSpec& spec = pipelines.emplace_back();
    spec.tp = pipeline.tp;
    spec.layers = pipeline.layers;
    for (std::size_t s = 0; s < pipeline.stages(); ++s) {
      std::vector<DeviceId>& devices = spec.devices.emplace_back();
      for (std::size_t i = 0; i < ranks.tensor_ranks(pipeline.id); ++i)
        devices.push_back(static_cast<DeviceId>(ranks.rank_of({pipeline.id, s, i})));
    }
  }
  return strategy_of(std::move(pipelines));
}

/// Hash of all that decides what ranks send each other. Never 0. O(moves + shards).
[[nodiscard]] inline std::uint64_t reshard_hash(const ReshardPlan& plan, ReshardDirection direction) {
  WordHash hash;
  hash.add(static_cast<std::uint8_t>(direction));
  for (const ParameterShards* layout : {&plan.from, &plan.to}) {
    hash.add_all(std::span(layout->sizes));
    hash.add_all(layout->shards.values(), [&](const ParameterShard& shard) {
      hash.add(shard.device);
      hash.add(shard.begin);
      hash.add(shard.end);
    });
  }
  for (std::size_t u = 0; u < plan.moves.size(); ++u) {
    hash.add_all(plan.moves[u], [&](const ReshardMove& move) {
      hash.add(move.begin);
      hash.add(move.end);
      hash.add(move.from);
      hash.add(move.to);
      hash.add(static_cast<std::uint8_t>(move.forwarded));
    });
  }
  return hash.value();
}

/// A step of a rank, with places in its buffers. A buffer of a unit holds the rank's shards of it, ascending, one after
/// another.
struct PlacedReshardStep : ReshardStep {
  std::size_t source_at = 0, target_at = 0;

  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(size()); }
};

/// What one rank does to carry out a plan in one direction.
struct ReshardProgram {
  Ragged<PlacedReshardStep> steps;         ///< [unit] in the order of rounds
  std::vector<std::size_t> first, second;  ///< [unit] numbers of the rank's two buffers
};

/// @throws InvalidInput as `rank_steps`. Complexity: O(moves of the plan + steps * shards of the rank in a unit).
[[nodiscard]] inline ReshardProgram reshard_program(const ReshardPlan& plan, DeviceId rank,
                                                    ReshardDirection direction) {
  ReshardProgram program;
  const Ragged<ReshardStep> steps = rank_steps(plan, rank, direction);
  for (std::size_t u = 0; u < steps.size(); ++u) {
    const std::vector<ParameterShard> own[] = {plan.from.of(u, rank), plan.to.of(u, rank)};
    const auto place_of = [&](ReshardBuffer buffer, std::int64_t number) {
      std::int64_t before = 0;
      for (const ParameterShard& shard : own[static_cast<std::size_t>(buffer)]) {
        if (number < shard.end) return static_cast<std::size_t>(before + number - shard.begin);
        before += shard.size();
      }
      return static_cast<std::size_t>(before);
    };
    for (const ReshardStep& step : steps[u]) {
      PlacedReshardStep placed{step, 0, 0};
      if (step.primitive != ReshardPrimitive::receive) placed.source_at = place_of(step.source, step.begin);
      if (step.primitive != ReshardPrimitive::send) placed.target_at = place_of(step.target, step.begin);
      program.steps.add(placed);
    }
    program.steps.close();
    for (const bool first : {true, false}) {
      std::int64_t numbers = 0;
      for (const ParameterShard& shard : own[first ? 0 : 1]) numbers += shard.size();
      (first ? program.first : program.second).push_back(static_cast<std::size_t>(numbers));
    }
  }
  return program;
}

}  // namespace slimpack
