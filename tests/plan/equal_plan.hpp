#pragma once

#include <cstddef>
#include <vector>

#include "slimpack/plan/plan.hpp"

namespace slimpack::testing {

/// One pipeline of `stages` stages in 1F1B order: `micro_batches` samples of `tokens` tokens, each its own
/// pack in both passes.
inline Plan equal_plan(std::size_t stages, std::size_t micro_batches, double forward, double backward,
                       Tokens tokens = 8) {
  Plan plan;
  PipelinePlan& pipeline = plan.pipelines.emplace_back();
  pipeline.layers.assign(stages, 2);
  for (std::size_t i = 0; i < micro_batches; ++i) {
    plan.tokens.push_back(tokens);
    for (PassPlan* pass : {&plan.forward, &plan.backward}) {
      pass->packs.add({static_cast<SampleId>(i), 0, tokens});
      pass->packs.close();
      pass->pipelines.add_row(1, 0);
      pass->flops.emplace_back();
      pass->seconds.add_row(stages, pass == &plan.forward ? forward : backward);
      pass->transfer_seconds.add_row(stages - 1, 0.0);
      pass->sharding.push_back(Sharding::none);
    }
    plan.backward.recompute_layers.add_row(stages, 0);
  }
  for (std::size_t s = 0; s < stages; ++s) {
    auto& order = pipeline.order.emplace_back();
    PackId next = 0;
    for (PackId k = 0; k < micro_batches; ++k) {
      while (next < micro_batches && next < k + stages - s) order.push_back({Pass::forward, next++});
      order.push_back({Pass::backward, k});
    }
  }
  return plan;
}

}  // namespace slimpack::testing
