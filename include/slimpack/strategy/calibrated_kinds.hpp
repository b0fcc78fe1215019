#pragma once

#include <cstdint>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/strategy/strategy_models.hpp"

namespace slimpack {

/// Makes the calibrated cost model, the transformer's memory model and the device's assumed attention table of any strategy's
/// pipelines. ZeRO shards what it shards over all devices, whatever the strategy.
[[nodiscard]] inline MakeKindModels calibrated_kinds(const Transformer& model, const Device& device,
                                                     const CalibratedOptions& cost = {},
                                                     const MemoryOptions& memory = {}) {
  return [=](const Strategy& strategy, std::uint32_t kind) {
    const PipelineSpec& spec = strategy.spec_of_kind(kind);
    const Job alone{
        .model = model,
        .device = device,
        .layout = {.dp = 1, .tp = spec.tp, .cp = spec.cp, .pp = static_cast<std::int32_t>(spec.stages())}};
    return price_models(spec, CalibratedCost(model, device, strategy, kind, cost),
                        TransformerMemory(model, device, spec, sharing_pipelines(strategy, kind), memory),
                        assumed_attention(alone));
  };
}

}  // namespace slimpack
