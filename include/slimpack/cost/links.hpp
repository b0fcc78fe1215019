#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "slimpack/core/error.hpp"
#include "slimpack/core/visible.hpp"
#include "slimpack/model/device.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/model/transformer.hpp"

namespace slimpack {

/// The slowest of several links for large messages.
class SlowestLink {
 public:
  void add(const Link& link) {
    if (slowest_ == nullptr || link.bandwidth < slowest_->bandwidth) slowest_ = &link;
  }
  /// The slowest of those that were added; another one if there are none. It lives as long as they do.
  [[nodiscard]] const Link& or_else(const Link& other) const {
    return slowest_ == nullptr ? other : *slowest_;
  }

 private:
  const Link* slowest_ = nullptr;
};

/// Link that these devices exchange data over: within a node if one holds them all, else between nodes.
/// O(devices).
[[nodiscard]] inline const Link& link_between(const Device& device, std::span<const DeviceId> devices) {
  for (const DeviceId d : devices) {
    if (d / device.devices_per_node != devices.front() / device.devices_per_node) return device.inter_node;
  }
  return device.intra_node;
}

/// Link of `ranks` devices with consecutive numbers, the first of which begins a node.
[[nodiscard]] inline const Link& group_link(const Device& device, std::int64_t ranks) {
  return ranks <= device.devices_per_node ? device.intra_node : device.inter_node;
}

/// Link of a stage's tensor-parallel ranks; of several context ranks, the slowest. O(tp cp).
[[nodiscard]] inline const Link& tensor_link(const Device& device, const PipelineSpec& spec,
                                             std::size_t stage) {
  const std::span<const DeviceId> ranks = spec.devices[stage];
  const auto tp = static_cast<std::size_t>(spec.tp);
  SlowestLink slowest;
  for (std::size_t first = 0; first < ranks.size(); first += tp)
    slowest.add(link_between(device, ranks.subspan(first, tp)));
  return slowest.or_else(device.intra_node);
}

/// Link of a stage's context-parallel ranks; of several tensor ranks, the slowest. O(tp cp).
[[nodiscard]] inline const Link& context_link(const Device& device, const PipelineSpec& spec,
                                              std::size_t stage) {
  const std::span<const DeviceId> ranks = spec.devices[stage];
  const auto tp = static_cast<std::size_t>(spec.tp);
  SlowestLink slowest;
  for (std::size_t i = tp; i < ranks.size(); ++i) {
    const DeviceId pair[] = {ranks[i], ranks[i % tp]};
    slowest.add(link_between(device, pair));
  }
  return slowest.or_else(device.intra_node);
}

/// Link over which a stage's ranks send to those of the stage after it, each to its equal; the slowest counts.
/// O(tp cp).
[[nodiscard]] inline const Link& stage_link(const Device& device, const PipelineSpec& spec,
                                            std::size_t stage) {
  SlowestLink slowest;
  for (std::size_t i = 0; i < spec.devices[stage].size(); ++i) {
    const DeviceId pair[] = {spec.devices[stage][i], spec.devices[stage + 1][i]};
    slowest.add(link_between(device, pair));
  }
  return slowest.or_else(device.intra_node);
}

/// @throws InvalidInput naming the first part of a pipeline that can't train this model. O(devices).
inline void require_pipeline(const PipelineSpec& spec, const Transformer& model) {
  require(spec.tp > 0, "tp is ", spec.tp, "; expected a positive number");
  require(spec.cp > 0, "cp is ", spec.cp, "; expected a positive number");
  require(model.heads % spec.tp == 0, "tp is ", spec.tp, "; expected a divisor of the ", model.heads,
          " heads of model '", visible(model.name), "'");
  require(!spec.layers.empty(), "there are no stages; expected at least one");
  std::int64_t sum = 0;
  for (std::size_t s = 0; s < spec.layers.size(); ++s) {
    require(spec.layers[s] >= 0, "stage ", s, " has ", spec.layers[s], " layers; expected none or more");
    sum += spec.layers[s];
  }
  require(sum == model.layers, "the stages hold ", sum, " layers; expected the ", model.layers, " of model '",
          visible(model.name), "'");
  require(spec.devices.size() == spec.layers.size(), "devices are given for ", spec.devices.size(),
          " stages; expected the ", spec.layers.size(), " that have layers");
  for (std::size_t s = 0; s < spec.devices.size(); ++s) {
    require(static_cast<std::int64_t>(spec.devices[s].size()) == spec.ranks_per_stage(), "stage ", s, " has ",
            spec.devices[s].size(), " devices; expected tp * cp = ", spec.ranks_per_stage());
    for (const DeviceId d : spec.devices[s])
      require(d >= 0, "stage ", s, " has device ", d, "; expected zero or a positive number");
  }
}

}  // namespace slimpack
