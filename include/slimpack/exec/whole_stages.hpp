#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack {

/// The same plan for ranks that run whole stages, whatever the tensor parallelism that it was made for: each pipeline has tp 1,
/// and of each context-parallel rank's devices the first. Durations and peaks stay those of the plan.
/// @param plan that `violations` finds nothing wrong with. @throws InvalidInput if a pipeline has no positive tp.
/// Complexity: O(devices).
[[nodiscard]] inline Plan whole_stages(Plan plan) {
  for (PipelinePlan& pipeline : plan.pipelines) {
    require(pipeline.tp > 0, "pipeline ", pipeline.id, " has tp ", pipeline.tp,
            "; expected a positive number");
    const auto tp = static_cast<std::size_t>(std::exchange(pipeline.tp, 1));
    for (std::vector<DeviceId>& stage : pipeline.devices) {
      std::vector<DeviceId> firsts;
      for (std::size_t i = 0; i < stage.size(); i += tp) firsts.push_back(stage[i]);
      stage = std::move(firsts);
    }
  }
  return plan;
}

}  // namespace slimpack
