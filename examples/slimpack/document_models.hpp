#pragma once

#include "documents.hpp"
#include "planners.hpp"
#include "slimpack/cost/attention_tables.hpp"

namespace slimpack::command {

/// Calls `use` with the models of time, memory and attention that the options ask for. Time and memory are the same
/// for all planners.
template <class Use>
auto with_models(const JobOptions& o, const Use& use) {
  if (o.profile) {
    return use(profiled_cost(o), profiled_memory(o), ProfiledAttention(*o.profile));
  }
  return use(CalibratedCost(o.job, o.cost), TransformerMemory(o.job, o.memory), assumed_attention(o.job));
}

}  // namespace slimpack::command
