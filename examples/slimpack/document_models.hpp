#pragma once

#include "documents.hpp"
#include "planners.hpp"
#include "slimpack/planners/pack_sharding.hpp"

namespace slimpack::command {

/// Calls `use` with the models of time, memory and attention that the options ask for. Time and memory are the same
/// for all planners.
template <class Use>
auto with_models(const JobOptions& o, const Use& use) {
  if (o.profile) {
    return use(profiled_cost(o), profiled_memory(o), ProfiledAttention(*o.profile));
  }
  return use(CalibratedCost(o.job, o.cost), TransformerMemory(o.job, o.memory),
             AttentionKernel(assumed_attention_table(o.job.device), o.job.model, o.job.layout.tp));
}

}  // namespace slimpack::command
