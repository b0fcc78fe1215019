#pragma once

#include <cstddef>
#include <span>

#include "slimpack/core/batch.hpp"
#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/cost/priced_models.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/planners/layout_search.hpp"
#include "slimpack/schedule/lower_bound.hpp"

namespace slimpack {

/// Seconds that every plan of a batch on a job's layout takes at least, synchronisation included, whichever pipelines run
/// a sample together; 0 where the prices have no such bound (`step_lower_bound`).
/// @throws InvalidInput as `price_models`, for example if the weights leave no room for tokens.
template <CostModel C, MemoryModel M, class A>
[[nodiscard]] double layout_bound(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                  const M& memory, const A& attention) {
  PricedModels models = price_models(job, cost, memory, attention);
  validate_batch(lengths, job.layout.dp);
  const StepLowerBound bound =
      step_lower_bound(lengths, static_cast<std::size_t>(job.layout.dp), models.prices);
  return bound.exists ? bound.seconds() + models.prices.alone().sync_seconds() : 0.0;
}

/// The same with the calibrated cost model, the transformer's memory model and the device's assumed attention table.
[[nodiscard]] inline double layout_bound(std::span<const Tokens> lengths, const Job& job) {
  return layout_bound(lengths, job, CalibratedCost(job), TransformerMemory(job), assumed_attention(job));
}

/// Figures of a plan.
[[nodiscard]] inline LayoutFigures layout_figures(const Plan& plan) {
  const PlanMetrics metrics = plan_metrics(plan);
  return {.steps = 1,
          .seconds = plan.step.seconds,
          .tokens = static_cast<double>(metrics.tokens),
          .peak_bytes = metrics.peak_bytes,
          .bound_seconds = plan.step.lower_bound_seconds};
}

/// Plans a batch on the best layout of a number of devices.
/// @param job its layout is not looked at. @param plan makes a Plan from lengths and a Job, such as a call of
/// `plan_slimpack`. @param bound seconds that every such plan takes at least, from the same; 0 where there is no bound, so
/// that all layouts are planned.
/// @param threads that plan at once; the result is the same for any number.
/// @throws InvalidInput as `layouts`, or if all layouts are refused.
template <class MakePlan, class Bound>
[[nodiscard]] LayoutChoice<Plan> plan_best_layout(std::span<const Tokens> lengths, const Job& job,
                                                  const LayoutSpace& space, const MakePlan& plan,
                                                  const Bound& bound, std::size_t threads = 1) {
  double tokens = 0.0;
  for (const Tokens length : lengths) tokens += static_cast<double>(length);
  const auto on = [&](const Layout& layout) {
    Job own = job;
    own.layout = layout;
    return own;
  };
  struct Planner {
    decltype(on) on_layout;
    std::span<const Tokens> lengths;
    const MakePlan& make;
    const Bound& least;
    double tokens;

    double bound(const Layout& layout) const { return least(lengths, on_layout(layout)) / tokens; }
    Plan plan(const Layout& layout) const { return make(lengths, on_layout(layout)); }
    static LayoutFigures figures(const Plan& plan) { return layout_figures(plan); }
  };
  return search_layouts(layouts(job.model, job.device, space), Planner{on, lengths, plan, bound, tokens},
                        threads);
}

}  // namespace slimpack
