#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/model/parallel.hpp"

namespace slimpack {

/// Number of a device among all devices of a training run. Nodes hold `Device::devices_per_node` consecutive ones.
using DeviceId = std::int32_t;

/// Who computes what in one pipeline: its stages, their layers and their devices.
struct PipelineSpec {
  std::int32_t tp = 1;                         ///< tensor parallelism of each stage
  std::int32_t cp = 1;                         ///< context parallelism of each pack
  std::vector<std::int32_t> layers;            ///< held by each stage, in the order of the stages
  std::vector<std::vector<DeviceId>> devices;  ///< [stage][context rank * tp + tensor rank]

  [[nodiscard]] std::size_t stages() const { return layers.size(); }
  [[nodiscard]] std::int64_t ranks_per_stage() const { return std::int64_t{tp} * cp; }
  friend bool operator==(const PipelineSpec&, const PipelineSpec&) = default;
};

/// Pipelines that train together. Pipelines of one kind differ only in their devices: one cost model and one memory
/// model describe them all, and they can be merged.
struct Strategy {
  std::vector<PipelineSpec> pipelines;
  std::vector<std::uint32_t> kind;  ///< [pipeline] number of its kind, from 0 in the order of first appearance

  /// The number of kinds.
  [[nodiscard]] std::size_t kinds() const {
    return kind.empty() ? 0 : std::size_t{*std::max_element(kind.begin(), kind.end())} + 1;
  }
  /// The first pipeline of a kind.
  [[nodiscard]] const PipelineSpec& spec_of_kind(std::uint32_t k) const {
    return pipelines[static_cast<std::size_t>(std::find(kind.begin(), kind.end(), k) - kind.begin())];
  }
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

/// Pipeline `replica` of a layout. Devices are numbered tp, cp, dp, pp, innermost first, as Megatron Core does.
[[nodiscard]] inline PipelineSpec layout_pipeline(const Transformer& model, const Layout& layout,
                                                  std::int32_t replica) {
  PipelineSpec spec{.tp = layout.tp, .cp = layout.cp, .layers = split_layers(model.layers, layout.pp), .devices = {}};
  for (std::int32_t s = 0; s < layout.pp; ++s) {
    std::vector<DeviceId>& own = spec.devices.emplace_back();
    for (std::int32_t rank = 0; rank < layout.tp * layout.cp; ++rank)
      own.push_back(rank + layout.tp * layout.cp * (replica + layout.dp * s));
  }
  return spec;
}

/// The uniform strategy of a layout: `dp` pipelines of one kind. @throws InvalidInput if the job is impossible.
[[nodiscard]] inline Strategy layout_strategy(const Job& job) {
  validate(job);
  Strategy strategy;
  for (std::int32_t d = 0; d < job.layout.dp; ++d)
    strategy.pipelines.push_back(layout_pipeline(job.model, job.layout, d));
  strategy.kind.assign(strategy.pipelines.size(), 0);
  return strategy;
}

}  // namespace slimpack
