#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "slimpack/core/batch.hpp"
#include "slimpack/cost/features.hpp"
#include "slimpack/cost/priced_models.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack::detail {

/// Whether several ranks run some pack.
[[nodiscard]] inline bool shares_packs(const Plan& plan) {
  const auto shared = [](Sharding kind) { return kind != Sharding::none; };
  return std::any_of(plan.forward.sharding.begin(), plan.forward.sharding.end(), shared);
}

/// Plans with prices by models of time and attention, and notes what the plan has to do without because these models lack
/// it. @param plan makes a Plan from GroupPrices and Memory.
/// @throws InvalidInput if the batch, the job or a model is impossible, or as `plan`.
template <CostModel C, MemoryModel M, class A, class MakePlan>
[[nodiscard]] Plan plan_with_models(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                    const M& memory, const A& attention, const MakePlan& plan) {
  constexpr bool priced = SeparableCostModel<C> && BoundedAttentionModel<A>;
  PricedModels models = [&] {
    if constexpr (priced) return price_models(job, cost, memory, attention);
    if constexpr (!priced) return price_models(job, cost, memory, NoAttentionModel{});
  }();
  validate_batch(lengths);
  require_durations(cost, lengths);
  Plan out = plan(models.prices, models.memory);
  out.notes.insert(out.notes.end(), models.missing.begin(), models.missing.end());
  if (!priced && shares_packs(out)) {
    out.notes.emplace_back(
        SeparableCostModel<C>
            ? "no attention model was given: context-parallel ranks are assumed to share attention equally"
            : Separable::without);
  }
  return out;
}

}  // namespace slimpack::detail
