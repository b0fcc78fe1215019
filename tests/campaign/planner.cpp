#include "planner.hpp"

#include <memory>
#include <utility>

#include "prices_of_plan.hpp"
#include "slimpack/planners/dynamic_cp.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"

namespace campaign {

namespace {

template <class C, class A = NoAttentionModel>
Planner planner_of(const Setting& setting, C model, const A& attention = {}) {
  const auto cost = std::make_shared<const C>(std::move(model));
  return {.slimpack =
              [&setting, cost, attention](const SlimPackOptions& options, const TransformerMemory& memory) {
                return plan_slimpack(setting.lengths, setting.job, *cost, memory, attention, options);
              },
          .megatron =
              [&setting, cost, attention](const TransformerMemory& memory) {
                return plan_megatron(setting.lengths, setting.job, *cost, memory, attention,
                                     {.context = setting.options.context});
              },
          .dynamic_cp =
              [&setting, cost, attention](const TransformerMemory& memory) {
                return plan_dynamic_cp(setting.lengths, setting.job, *cost, memory, attention);
              },
          .price_anew = [cost, attention](Plan& plan) { campaign::price_anew(plan, *cost, attention); }};
}

}  // namespace

Planner make_planner(const Setting& setting) {
  std::vector<std::int32_t> layers = split_layers(setting.job.model.layers, setting.job.layout.pp);
  switch (setting.cost) {
    case CostKind::plain:
      return planner_of(setting, PlainUserCost(setting.rates, std::move(layers)));
    case CostKind::merging:
      return planner_of(setting, MergingUserCost(setting.rates, std::move(layers)));
    case CostKind::full:
      return planner_of(setting, FullUserCost(setting.rates, std::move(layers)));
    case CostKind::calibrated:
      break;
  }
  return planner_of(setting, calibrated_cost(setting), assumed_attention(setting.job));
}

}  // namespace campaign
