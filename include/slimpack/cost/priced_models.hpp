#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "slimpack/cost/check.hpp"
#include "slimpack/cost/features.hpp"
#include "slimpack/cost/memory_features.hpp"
#include "slimpack/cost/memory_prices.hpp"
#include "slimpack/cost/prices.hpp"

namespace slimpack {

/// Passed where no attention model is given.
struct NoAttentionModel {};

/// Models of a pipeline of a job's layout, as code that is no template takes them.
struct PricedModels {
  GroupPrices prices;
  Memory memory;
  /// Packs of planners that number them (`PackPipelineOptions::useful_tokens`) should have at least so many tokens on
  /// average. 0: any.
  Tokens useful_tokens = 0;
  std::vector<std::string> missing = {};  ///< notes of what plans go without (`missing_capabilities`)
};

/// Notes of what plans go without: what the cost model lacks, and what the memory model lacks of that which the cost model prices.
template <CostModel C, MemoryModel M>
[[nodiscard]] std::vector<std::string> missing_capabilities(const C& cost, const M& memory) {
  std::vector<std::string> notes = missing_features(cost);
  const auto add = [&](bool priced, std::vector<std::string> more) {
    if (priced) notes.insert(notes.end(), more.begin(), more.end());
  };
  add(MergeableCostModel<C>, missing_memory_features<ExchangingMemory>(memory));
  add(OffloadingCostModel<C>, missing_memory_features<OffloadingMemory>(memory));
  return notes;
}

/// Wraps models of any type for one kind of pipelines. Without an attention model, ranks share attention equally.
/// @throws InvalidInput if a model has other stages or layers than the pipelines, or as `Memory`.
template <CostModel C, MemoryModel M, class A>
  requires(BoundedAttentionModel<A> || std::same_as<A, NoAttentionModel>)
[[nodiscard]] PricedModels price_models(const PipelineSpec& spec, const C& cost, const M& memory,
                                        const A& attention) {
  check_models(cost, memory, Strategy{{spec}, {0}});
  const auto make_prices = [&] {
    if constexpr (BoundedAttentionModel<A>) return Prices(cost, attention, spec.cp);
    if constexpr (!BoundedAttentionModel<A>) return Prices(cost, spec.cp);
  };
  return {.prices = GroupPrices(make_prices()),
          .memory = Memory(memory, spec.layers, RecomputingCostModel<C>),
          .missing = missing_capabilities(cost, memory)};
}

/// The same for the pipelines of a job's layout. @throws InvalidInput also if the job is impossible.
template <CostModel C, MemoryModel M, class A>
  requires(BoundedAttentionModel<A> || std::same_as<A, NoAttentionModel>)
[[nodiscard]] PricedModels price_models(const Job& job, const C& cost, const M& memory, const A& attention) {
  validate(job);
  return price_models(layout_pipeline(job.model, job.layout, 0), cost, memory, attention);
}

}  // namespace slimpack
