#pragma once

#include <algorithm>
#include <span>
#include <utility>

#include "slimpack/core/batch.hpp"
#include "slimpack/plan/assemble.hpp"
#include "slimpack/planners/hydraulis_options.hpp"
#include "slimpack/planners/strategy_choice.hpp"
#include "slimpack/strategy/strategy_bounds.hpp"
#include "slimpack/strategy/strategy_set.hpp"

namespace slimpack::detail {

/// `plan_hydraulis` among known strategies.
[[nodiscard]] inline Plan search_hydraulis(std::span<const Tokens> lengths, const Transformer& model,
                                           const Device& device, const StrategySet& set,
                                           const HydraulisOptions& options) {
  validate_batch(lengths);
  StrategyChoice choice(lengths, set, options);
  choice.plan_whole_samples(PlanFreedom::whole);
  if (options.two_stage.recompute) choice.plan_whole_samples(PlanFreedom::recompute);
  choice.plan_packs_in_turn();
  if (options.slices) choice.plan_slices();
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  if (!choice.found()) refuse_longest(longest, set, options.two_stage.recompute);
  StrategyModels models = set.models(choice.best());
  StrategySchedules schedules = choice.take_schedules();
  Plan plan = assemble_plan(options.slices ? "hydraulis-slices" : "hydraulis", lengths, model, device,
                            models.strategy(), std::move(schedules.placed), models.sync_seconds());
  // Of any plan on these pipelines, samples that are cut included.
  const bool additive = parts_cost_no_less(lengths, models);
  state_lower_bound(additive ? choice.divided_samples() : 0.0, additive, plan);
  plan.notes.push_back(concat("strategy: ", to_text(models.strategy()), ", the best of ", set.size(), "; ",
                              choice.planned(), choice.planned() == 1 ? " plan was" : " plans were",
                              " compared"));
  plan.notes.insert(plan.notes.end(), models.missing().begin(), models.missing().end());
  return plan;
}

}  // namespace slimpack::detail
