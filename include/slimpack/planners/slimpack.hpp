#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/check.hpp"
#include "slimpack/cost/features.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/cost/memory_prices.hpp"
#include "slimpack/cost/prices.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/planners/slimpack_options.hpp"

namespace slimpack {

/// `plan_slimpack` with prices of any model, for pipelines of one kind.
[[nodiscard]] Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                                 const Memory& memory, const SlimPackOptions& options = {});

/// SlimPack (sections 4 and 5.1): samples over pipelines, outliers merged over several (Phase 1); forward and
/// backward MicroPacks of equal cost, each pass cut its own way, for every candidate number of packs (Phase
/// 2); PackFlow's order under the memory limit; of all candidates, the one with the shortest simulated step wins.
/// What an option restricts is among the candidates without it, so that more freedom never makes a plan longer.
/// @param lengths tokens of every sample.
/// @param cost, memory models of the job's stages; any types that satisfy the concepts.
/// @throws InvalidInput if the batch or the job is impossible, or nothing fits into memory.
/// Complexity: O(candidates * (samples + packs * stages)) and O(n log n) to sort.
template <CostModel C, MemoryModel M>
[[nodiscard]] Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                 const M& memory, const SlimPackOptions& options = {}) {
  check_models(cost, memory, layout_strategy(job));
  validate_batch(lengths, job.layout.dp);
  require_durations(cost, lengths);
  GroupPrices prices{Prices(cost)};
  const std::vector<std::int32_t> layers = split_layers(job.model.layers, job.layout.pp);
  Plan plan = plan_slimpack(lengths, job, prices, Memory(memory, layers, RecomputingCostModel<C>), options);
  for (std::string& note : missing_features(cost)) plan.notes.push_back(std::move(note));
  return plan;
}

/// The same with the calibrated cost model and the transformer's memory model.
[[nodiscard]] Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job,
                                 const SlimPackOptions& options = {});

}  // namespace slimpack

// The library slimpack::planners has these, compiled.
#ifndef SLIMPACK_COMPILED_PLANNERS

#include "slimpack/planners/slimpack_search.hpp"

namespace slimpack {

inline Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                          const Memory& memory, const SlimPackOptions& options) {
  return detail::search_slimpack(lengths, job, prices, memory, options);
}

inline Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, const SlimPackOptions& options) {
  return plan_slimpack(lengths, job, CalibratedCost(job), TransformerMemory(job), options);
}

}  // namespace slimpack

#endif
