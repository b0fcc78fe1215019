#pragma once

#include <string>

#include "slimpack/core/error.hpp"
#include "slimpack/core/visible.hpp"

namespace slimpack {

/// A connection between devices: time to move n bytes = latency + n / bandwidth.
struct Link {
  double bandwidth = 0.0;  ///< achieved bytes per second in one direction, per device
  double latency = 0.0;    ///< seconds

  [[nodiscard]] constexpr double seconds(double bytes) const { return latency + bytes / bandwidth; }
  friend bool operator==(const Link&, const Link&) = default;
};

/// An accelerator and its surroundings: the constants that turn FLOPs and bytes into seconds. Peak rates are
/// the vendor's; achieved fractions are what calibration replaces (SlimPack, section 5.1).
struct Device {
  std::string name = "custom";
  double peak_flops = 0.0;                ///< dense bf16 FLOP/s
  double gemm_efficiency = 0.0;           ///< achieved fraction of the peak by dense products, forward
  double gemm_backward_efficiency = 0.0;  ///< the same backward; what is recomputed runs forward
  double attention_forward = 0.0;         ///< achieved fraction by attention, forward
  double attention_backward = 0.0;        ///< achieved fraction by attention, backward
  double memory_bytes = 0.0;              ///< memory that training may use
  double memory_bandwidth = 0.0;          ///< achieved bytes per second of memory-bound operators
  double pack_overhead = 0.0;             ///< seconds of launches and host work per pack, stage and pass
  Link intra_node;                        ///< NVLink or alike
  Link inter_node;                        ///< network interface, per device
  Link host;                              ///< PCIe, for offloading
  int devices_per_node = 8;

  friend bool operator==(const Device&, const Device&) = default;
};

/// @throws InvalidInput naming the first constant that no device can have.
inline void validate(const Device& d) {
  const auto positive = [&](const char* field, double value) {
    require(value > 0.0 && value < 1e30, "device '", visible(d.name), "': ", field, " is ", value,
            "; expected a positive number");
  };
  const auto fraction = [&](const char* field, double value) {
    require(value > 0.0 && value <= 1.0, "device '", visible(d.name), "': ", field, " is ", value,
            "; expected a fraction in (0, 1]");
  };
  const auto not_negative = [&](const char* field, double value) {
    require(value >= 0.0 && value < 1e30, "device '", visible(d.name), "': ", field, " is ", value,
            "; expected zero or a positive number");
  };
  positive("peak_flops", d.peak_flops);
  fraction("gemm_efficiency", d.gemm_efficiency);
  fraction("gemm_backward_efficiency", d.gemm_backward_efficiency);
  fraction("attention_forward", d.attention_forward);
  fraction("attention_backward", d.attention_backward);
  positive("memory_bytes", d.memory_bytes);
  positive("memory_bandwidth", d.memory_bandwidth);
  not_negative("pack_overhead", d.pack_overhead);
  positive("intra_node.bandwidth", d.intra_node.bandwidth);
  positive("inter_node.bandwidth", d.inter_node.bandwidth);
  positive("host.bandwidth", d.host.bandwidth);
  not_negative("intra_node.latency", d.intra_node.latency);
  not_negative("inter_node.latency", d.inter_node.latency);
  not_negative("host.latency", d.host.latency);
  require(d.devices_per_node > 0, "device '", visible(d.name), "': devices_per_node is ", d.devices_per_node,
          "; expected a positive number");
}

}  // namespace slimpack
