#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "slimpack/model/device.hpp"
#include "slimpack/model/strategy.hpp"

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

/// The fewest of these devices that a node has, of nodes that have any. O(devices log(nodes)).
[[nodiscard]] inline std::int32_t least_in_node(const Device& device, std::span<const DeviceId> devices) {
  std::map<DeviceId, std::int32_t> in_node;
  for (const DeviceId d : devices) ++in_node[d / device.devices_per_node];
  std::int32_t least = in_node.empty() ? 1 : in_node.begin()->second;
  for (const auto& [node, count] : in_node) least = std::min(least, count);
  return least;
}

/// The same for the ranks of `tensor` consecutive devices each that follow one another from device `first` on: the fewest of
/// these `ranks` that begin in a node. O(1).
[[nodiscard]] inline std::int32_t least_in_node(const Device& device, DeviceId first, std::int32_t tensor,
                                                std::int32_t ranks) {
  const std::int32_t all = std::max(1, device.devices_per_node / tensor);
  const auto rest_of_node =
      static_cast<std::int32_t>(device.devices_per_node - first % device.devices_per_node);
  const std::int32_t in_first = std::min(ranks, std::max(1, rest_of_node / tensor));
  const std::int32_t in_last = (ranks - in_first) % all;
  return std::min({in_first, ranks > in_first ? all : ranks, in_last > 0 ? in_last : ranks});
}

/// Bytes per second of each device in a ring of these devices, as all-gathers and reduce-scatters of large messages use it.
/// Between nodes, a node's devices each carry a ring of their own over their network interface, so that the node with
/// fewest of them counts. O(devices log(nodes)).
[[nodiscard]] inline double ring_bandwidth(const Device& device, std::span<const DeviceId> devices) {
  const double within = device.intra_node.bandwidth;
  if (&link_between(device, devices) == &device.intra_node) return within;
  return std::min(within, least_in_node(device, devices) * device.inter_node.bandwidth);
}

/// What an all-to-all among `ranks` devices on several nodes, at least `in_node` of them on each, sends as if over one link:
/// the network moves what leaves a node, and meanwhile the link within nodes moves the rest. The slower counts.
/// @pre 0 < in_node < ranks.
[[nodiscard]] inline Link all_to_all_link(const Device& device, std::int32_t ranks, std::int32_t in_node) {
  Link link = device.inter_node;
  const double others = ranks - 1.0;
  link.bandwidth *= others / (ranks - in_node);
  if (in_node > 1)
    link.bandwidth = std::min(link.bandwidth, device.intra_node.bandwidth * others / (in_node - 1));
  return link;
}

/// Adds the context-parallel ranks of a stage that have a tensor-parallel rank.
inline void add_context_ranks(const PipelineSpec& spec, std::size_t stage, std::int32_t tensor_rank,
                              std::vector<DeviceId>& ranks) {
  for (std::int32_t i = tensor_rank; i < spec.tp * spec.cp; i += spec.tp)
    ranks.push_back(spec.devices[stage][static_cast<std::size_t>(i)]);
}

/// Link of a stage's tensor-parallel ranks, as their all-gathers and reduce-scatters use it (`ring_bandwidth`); of
/// several context ranks, the slowest. O(tp cp log(nodes)).
[[nodiscard]] inline Link tensor_link(const Device& device, const PipelineSpec& spec, std::size_t stage) {
  const std::span<const DeviceId> ranks = spec.devices[stage];
  const auto tp = static_cast<std::size_t>(spec.tp);
  std::vector<Link> links;
  for (std::size_t first = 0; first < ranks.size(); first += tp) {
    links.push_back(link_between(device, ranks.subspan(first, tp)));
    links.back().bandwidth = ring_bandwidth(device, ranks.subspan(first, tp));
  }
  SlowestLink slowest;
  for (const Link& link : links) slowest.add(link);
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

}  // namespace slimpack
