#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/communication.hpp"
#include "slimpack/cost/links.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/model/strategy.hpp"

namespace slimpack {

/// Devices that divide what ZeRO shards among them.
enum class ZeroGroup : std::uint8_t {
  all,      ///< the context-parallel ranks of all pipelines, as far as they hold the same layers
  context,  ///< those of each pipeline alone; pipelines hold copies (hybrid sharding)
};

/// Communication of ZeRO-3: each pack gathers the parameters that it needs, layer by layer, and reduces their gradients.
struct Zero3Options {
  bool on = false;                   ///< if not, parameters are where they are used
  ZeroGroup group = ZeroGroup::all;  ///< who shards; as `MemoryOptions::zero_group`
  /// Share of this communication that runs while the pack computes, [0, 1]. Parameters of the next layer are gathered in
  /// advance, but over the links that a layer's own all-to-all uses, and short packs compute for less time than that takes.
  /// No paper states a share: InfiniPipe (section 5.3) calls what is not hidden a main bottleneck, without seconds. The
  /// default is in the middle. Being a constant of every pack, it does not depend on how long a pack computes.
  double overlap = 0.5;
  double gradient_bytes =
      2.0;  ///< of a parameter's gradient while it is reduced: bf16, as DeepSpeed's default
};

/// What ZeRO-3 adds to every pack of a kind of pipelines, in seconds, [stage]: {forward, backward}. Forward, the stage's bf16
/// parameters are gathered; backward, they are gathered again, and their gradients reduced and scattered. Ring collectives
/// among the ranks that shard (`ring_bandwidth`), less the share that is hidden; nothing if the option is off.
/// @throws InvalidInput if a number is impossible, or pipelines of several kinds are to shard together.
/// Complexity: O(devices).
[[nodiscard]] inline std::vector<std::array<double, 2>> zero3_seconds(const Strategy& strategy,
                                                                      std::uint32_t kind,
                                                                      const Transformer& model,
                                                                      const Device& device,
                                                                      const Zero3Options& options) {
  require(options.overlap >= 0.0 && options.overlap <= 1.0, "zero3.overlap is ", options.overlap,
          "; expected a share in [0, 1]");
  require(options.gradient_bytes > 0.0 && options.gradient_bytes <= 8.0, "zero3.gradient_bytes is ",
          options.gradient_bytes, "; expected more than 0 and at most 8");
  const PipelineSpec& spec = strategy.spec_of_kind(kind);
  std::vector<std::array<double, 2>> seconds(spec.stages(), {0.0, 0.0});
  if (!options.on) return seconds;
  const bool all = options.group == ZeroGroup::all;
  require(!all || strategy.kinds() == 1, "pipelines of ", strategy.kinds(),
          " kinds are to shard parameters together; expected one kind, or ZeroGroup::context");
  for (std::size_t s = 0; s < spec.stages(); ++s) {
    const double parameters = stage_parameters(model, spec.layers, s) / spec.tp;
    double slowest = 0.0;  // per byte of a rank's parameters
    for (std::int32_t rank = 0; rank < spec.tp; ++rank) {
      std::vector<DeviceId> group;
      for (const PipelineSpec& p : strategy.pipelines) {
        if (all || &p == &spec) add_context_ranks(p, s, rank, group);
      }
      const auto n = static_cast<double>(group.size());
      slowest = std::max(slowest, (n - 1.0) / n / ring_bandwidth(device, group));
    }
    const double shown = (1.0 - options.overlap) * parameters * slowest;
    seconds[s] = {shown * bytes_per_bf16, shown * (bytes_per_bf16 + options.gradient_bytes)};
  }
  return seconds;
}

}  // namespace slimpack
