#pragma once

#include <concepts>
#include <cstdint>
#include <vector>

#include "slimpack/cost/check.hpp"
#include "slimpack/cost/memory_prices.hpp"
#include "slimpack/cost/prices.hpp"

namespace slimpack {

/// Passed where no attention model is given.
struct NoAttentionModel {};

/// Models of a pipeline of a job's layout, as code that is no template takes them.
struct PricedModels {
  GroupPrices prices;
  Memory memory;
};

/// Checks models of any type against a job's layout, and wraps them. Without an attention model, ranks share attention equally.
/// @throws InvalidInput as `layout_strategy`, `check_models` or `Memory`.
template <CostModel C, MemoryModel M, class A>
  requires(BoundedAttentionModel<A> || std::same_as<A, NoAttentionModel>)
[[nodiscard]] PricedModels price_models(const Job& job, const C& cost, const M& memory, const A& attention) {
  const Strategy strategy = layout_strategy(job);
  check_models(cost, memory, strategy);
  const auto make_prices = [&] {
    if constexpr (BoundedAttentionModel<A>) return Prices(cost, attention, job.layout.cp);
    if constexpr (!BoundedAttentionModel<A>) return Prices(cost, job.layout.cp);
  };
  return {GroupPrices(make_prices()),
          Memory(memory, strategy.pipelines.front().layers, RecomputingCostModel<C>)};
}

}  // namespace slimpack
