#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/cost/memory_prices.hpp"
#include "slimpack/cost/prices.hpp"
#include "slimpack/cost/synchronise.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/plan/assemble.hpp"
#include "slimpack/schedule/scheduler.hpp"

// A planner as a user of the parts would write it: samples in chunks of equal size, the same in both passes; chunks of
// long samples are recomputed in the backward pass; pipelines of several kinds side by side.
namespace slimpack::chunks {

/// Packs of a pipeline, and which of them hold a part of a sample only.
struct Chunks {
  Packs forward, backward;
  std::vector<bool> part;  // [backward pack]
};

/// Whole samples share a chunk as long as they fit; longer ones are cut. Parts run backward in reverse.
inline Chunks cut(std::span<const SampleId> samples, std::span<const Tokens> lengths, Tokens size) {
  Chunks out;
  const auto close = [&] {
    for (Packs* packs : {&out.forward, &out.backward}) packs->close();
    out.part.push_back(false);
  };
  Tokens filled = 0;
  for (const SampleId id : samples) {
    if (filled > 0 && filled + lengths[id] > size) close(), filled = 0;
    if (lengths[id] > size) {
      const Tokens count = (lengths[id] + size - 1) / size;
      const auto part = [&](Tokens i) { return Slice{id, i * size, std::min(lengths[id], (i + 1) * size)}; };
      for (Tokens i = 0; i < count; ++i) {
        out.forward.add_row(1, part(i));
        out.backward.add_row(1, part(count - 1 - i));
        out.part.push_back(true);
      }
      continue;
    }
    for (Packs* packs : {&out.forward, &out.backward}) packs->add({id, 0, lengths[id]});
    filled += lengths[id];
  }
  if (filled > 0) close();
  return out;
}

/// Samples to the pipeline with the least work for its speed; each pipeline's chunks on its own.
inline Plan plan(std::span<const Tokens> lengths, const Transformer& model, const Device& device,
                 const Strategy& strategy, const MemoryOptions& options, Tokens size) {
  std::vector<GroupPrices> prices;
  std::vector<Memory> memories;
  for (std::uint32_t kind = 0; kind < strategy.kinds(); ++kind) {
    const PipelineSpec& spec = strategy.spec_of_kind(kind);
    prices.emplace_back(Prices(CalibratedCost(model, device, strategy, kind)));
    const auto replicas = static_cast<std::int32_t>(strategy.pipelines.size());
    memories.emplace_back(TransformerMemory(model, device, spec, replicas, options), spec.layers, true);
  }
  std::vector<SampleId> order(lengths.size());
  std::iota(order.begin(), order.end(), SampleId{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](SampleId a, SampleId b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<SampleId>> samples(strategy.pipelines.size());
  std::vector<double> load(samples.size(), 0.0);
  for (const SampleId id : order) {
    const auto least = static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    samples[least].push_back(id);
    load[least] += static_cast<double>(lengths[id]) / static_cast<double>(strategy.pipelines[least].stages());
  }
  std::vector<PlacedSchedule> placed;
  for (PipelineId p = 0; p < samples.size(); ++p) {
    const std::uint32_t kind = strategy.kind[p];
    const PipelineSpec& spec = strategy.pipelines[p];
    Chunks own = cut(samples[p], lengths, size);
    std::vector<std::int32_t> recompute_layers;
    for (const bool part : own.part) {
      for (const std::int32_t layers : spec.layers) recompute_layers.push_back(part ? layers : 0);
    }
    Scheduler scheduler(lengths, prices[kind], memories[kind]);
    Schedule schedule;
    schedule.pipelines = 1;
    schedule.forward = in_rows(std::move(own.forward));
    schedule.backward = in_rows(std::move(own.backward));
    scheduler(schedule, Recompute(spec.stages(), std::move(recompute_layers)));
    require(schedule.fits(), "chunks of ", size, " tokens do not fit into memory; expected smaller ones");
    placed.push_back({{p}, scheduler.with_peaks(std::move(schedule))});
  }
  return assemble_plan("unequal chunks", lengths, model, device, strategy, std::move(placed),
                       sync_seconds(strategy, model, device));
}

/// Pipelines of as many stages as listed, whose layers are split equally and whose devices follow each other.
inline Strategy pipelines_of(std::span<const std::int32_t> stages, std::int32_t layers) {
  std::vector<PipelineSpec> pipelines;
  DeviceId next = 0;
  for (const std::int32_t count : stages) {
    PipelineSpec spec{.layers = split_layers(layers, count), .devices = {}};
    for (std::int32_t s = 0; s < count; ++s) spec.devices.push_back({next++});
    pipelines.push_back(std::move(spec));
  }
  return strategy_of(std::move(pipelines));
}

}  // namespace slimpack::chunks
