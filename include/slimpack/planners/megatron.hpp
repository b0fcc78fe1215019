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
#include "slimpack/planners/megatron_options.hpp"

namespace slimpack {

/// `plan_megatron` with prices of any model. @param layers of each stage are those of the layout.
[[nodiscard]] Plan plan_megatron(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                                 const Memory& memory, const MegatronOptions& options = {});

/// The baseline: what a careful user of Megatron-LM runs. Whole samples, best-fit-decreasing into packs of
/// `context` tokens, dealt evenly to the data-parallel ranks, 1F1B. Context parallelism takes ranks from data
/// parallelism; among the settings that fit into memory, each with the least uniform recomputation that makes them fit,
/// the one with the shortest step counts.
/// @throws InvalidInput if a sample is longer than the context or no setting fits into memory.
/// Complexity: O(n log n + divisors(dp) * packs * stages).
template <CostModel C, MemoryModel M>
[[nodiscard]] Plan plan_megatron(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                 const M& memory, const MegatronOptions& options = {}) {
  check_models(cost, memory, layout_strategy(job));
  validate_batch(lengths, job.layout.dp);
  require_durations(cost, lengths);
  GroupPrices prices{Prices(cost)};
  const std::vector<std::int32_t> layers = split_layers(job.model.layers, job.layout.pp);
  Plan plan = plan_megatron(lengths, job, prices, Memory(memory, layers, RecomputingCostModel<C>), options);
  for (std::string& note : missing_features(cost)) plan.notes.push_back(std::move(note));
  return plan;
}

/// The same with the calibrated cost model and the transformer's memory model.
[[nodiscard]] Plan plan_megatron(std::span<const Tokens> lengths, const Job& job,
                                 const MegatronOptions& options = {});

}  // namespace slimpack

// The library slimpack::planners has these, compiled.
#ifndef SLIMPACK_COMPILED_PLANNERS

#include "slimpack/planners/megatron_search.hpp"

namespace slimpack {

inline Plan plan_megatron(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                          const Memory& memory, const MegatronOptions& options) {
  return detail::search_megatron(lengths, job, prices, memory, options);
}

inline Plan plan_megatron(std::span<const Tokens> lengths, const Job& job, const MegatronOptions& options) {
  return plan_megatron(lengths, job, CalibratedCost(job), TransformerMemory(job), options);
}

}  // namespace slimpack

#endif
