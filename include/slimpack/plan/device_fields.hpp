#pragma once

#include "slimpack/model/device.hpp"

namespace slimpack::detail {

/// Calls `visit(key, member)` for every number of a device.
template <class AnyDevice, class Visit>
void visit_device(AnyDevice& d, Visit&& visit) {
  visit("peak_flops", d.peak_flops);
  visit("gemm_efficiency", d.gemm_efficiency);
  visit("gemm_backward_efficiency", d.gemm_backward_efficiency);
  visit("attention_forward", d.attention_forward);
  visit("attention_backward", d.attention_backward);
  visit("memory_bytes", d.memory_bytes);
  visit("memory_bandwidth", d.memory_bandwidth);
  visit("pack_overhead", d.pack_overhead);
  visit("intra_node_bandwidth", d.intra_node.bandwidth);
  visit("intra_node_latency", d.intra_node.latency);
  visit("inter_node_bandwidth", d.inter_node.bandwidth);
  visit("inter_node_latency", d.inter_node.latency);
  visit("host_bandwidth", d.host.bandwidth);
  visit("host_latency", d.host.latency);
  visit("devices_per_node", d.devices_per_node);
}

}  // namespace slimpack::detail
