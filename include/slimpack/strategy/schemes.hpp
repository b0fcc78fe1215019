#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/visible.hpp"
#include "slimpack/model/strategy.hpp"

namespace slimpack {

/// How one pipeline runs: P of Hydraulis, with context parallelism as well.
struct Scheme {
  std::int32_t tp = 1, cp = 1, pp = 1;

  /// Devices of one pipeline: N(P).
  [[nodiscard]] std::int64_t ranks() const { return std::int64_t{tp} * cp * pp; }
  friend bool operator==(const Scheme&, const Scheme&) = default;
};

/// A scheme as text, such as "tp 8, cp 1, pp 2".
[[nodiscard]] inline std::string to_text(const Scheme& scheme) {
  return concat("tp ", scheme.tp, ", cp ", scheme.cp, ", pp ", scheme.pp);
}

/// Which schemes are looked at.
struct SchemeSpace {
  std::int64_t devices = 0;      ///< of the job; a pipeline has at most so many
  std::int32_t most_cp = 8;      ///< context parallelism
  bool tp_across_nodes = false;  ///< else tensor parallelism stays within a node
};

/// A pipeline of a scheme, its layers shared among the stages as evenly as can be; its devices are not stated.
[[nodiscard]] inline PipelineSpec scheme_pipeline(const Transformer& model, const Scheme& scheme) {
  return {.tp = scheme.tp, .cp = scheme.cp, .layers = split_layers(model.layers, scheme.pp), .devices = {}};
}

/// All schemes of a space: tp is a power of two that divides the model's heads, cp is a power of two, and pp is one or
/// divides the layers; or cp and pp are any with which pipelines of the scheme alone leave no device idle. Ascending by
/// tp, then cp, then pp.
/// @throws InvalidInput if the model, the device or the space is impossible. Source: Hydraulis, section 5.1.
/// O(log(devices) most_cp layers).
[[nodiscard]] inline std::vector<Scheme> schemes(const Transformer& model, const Device& device,
                                                 const SchemeSpace& space) {
  validate(model);
  validate(device);
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  require(space.devices > 0 && space.devices <= most, "the number of devices is ", space.devices,
          "; expected 1 to ", most);
  require(space.most_cp > 0, "most_cp is ", space.most_cp, "; expected at least 1");
  std::vector<Scheme> all;
  for (std::int64_t tp = 1; tp <= space.devices; tp *= 2) {
    if (model.heads % tp != 0 || (!space.tp_across_nodes && device.devices_per_node % tp != 0)) continue;
    for (std::int64_t cp = 1; cp <= space.most_cp && tp * cp <= space.devices; ++cp) {
      const bool usual_cp = std::has_single_bit(static_cast<std::uint64_t>(cp));
      for (std::int32_t pp = 1; pp <= model.layers && tp * cp * pp <= space.devices; ++pp) {
        const bool usual_pp = model.layers % pp == 0 || std::has_single_bit(static_cast<std::uint32_t>(pp));
        if (!(usual_cp && usual_pp) && space.devices % (tp * cp * pp) != 0) continue;
        all.push_back({static_cast<std::int32_t>(tp), static_cast<std::int32_t>(cp), pp});
      }
    }
  }
  return all;
}

}  // namespace slimpack
