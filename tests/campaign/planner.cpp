#include "planner.hpp"

#include <memory>
#include <utility>

#include "prices_of_plan.hpp"
#include "slimpack/planners/bytescale.hpp"
#include "slimpack/planners/chunk_pipelines.hpp"
#include "slimpack/planners/dynamic_cp.hpp"
#include "slimpack/planners/dynapipe.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"

namespace campaign {

namespace {

template <class C, class A>
std::vector<RivalPlanner> rivals_of(const Setting& setting, const std::shared_ptr<const C>& cost,
                                    const A& attention) {
  std::vector<RivalPlanner> rivals{
      {"dynapipe",
       [&setting, cost, attention](const TransformerMemory& memory) {
         return plan_dynapipe(setting.lengths, setting.job, *cost, memory, attention);
       }},
      {"bytescale", [&setting, cost, attention](const TransformerMemory& memory) {
         return plan_bytescale(setting.lengths, setting.job, *cost, memory, attention);
       }}};
  const std::pair<const char*, ChunkPlanOptions> systems[] = {{"infinipipe", infinipipe_options()},
                                                              {"seq1f1b", seq1f1b_options()},
                                                              {"terapipe", terapipe_options()},
                                                              {"chunkflow", chunkflow_options()}};
  for (const auto& system : systems) {
    ChunkPlanOptions options = system.second;
    options.tile = setting.options.tile;
    rivals.push_back(
        {system.first,
         [&setting, cost, attention, name = system.first, options](const TransformerMemory& memory) {
           return plan_chunks(name, setting.lengths, setting.job, *cost, memory, attention, options);
         }});
  }
  return rivals;
}

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
          .rivals = rivals_of(setting, cost, attention),
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
