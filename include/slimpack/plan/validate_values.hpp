#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/device_fields.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/violations.hpp"

namespace slimpack::detail {

/// Constants that a planner has no use for are zero.
inline void check_device(const Device& device, Violations& found) {
  visit_device(device, [&](const char* key, double value) {
    found.expect(value >= 0.0 && std::isfinite(value), "device.", key, " is ", value,
                 "; expected zero or a positive number");
  });
  const auto fraction = [&](const char* key, double value) {
    found.expect(!(value > 1.0), "device.", key, " is ", value, "; expected a fraction in [0, 1]");
  };
  fraction("gemm_efficiency", device.gemm_efficiency);
  fraction("gemm_backward_efficiency", device.gemm_backward_efficiency);
  fraction("attention_forward", device.attention_forward);
  fraction("attention_backward", device.attention_backward);
}

inline void check_pack_values(const Plan& plan, Pass pass, Violations& found) {
  const PassPlan& packs = plan.of(pass);
  for (std::size_t k = 0; k < packs.packs.size(); ++k) {
    for (const double seconds : packs.seconds[k]) {
      found.expect(seconds > 0.0 && std::isfinite(seconds), pass_name(pass), "[", k, "].seconds holds ",
                   seconds, "; expected positive numbers");
    }
    found.expect(packs.transfer_seconds[k] >= 0.0 && std::isfinite(packs.transfer_seconds[k]),
                 pass_name(pass), "[", k, "].transfer_seconds is ", packs.transfer_seconds[k],
                 "; expected zero or a positive number");
    if (pass == Pass::forward) continue;
    for (const PipelineId p : packs.pipelines[k]) {
      for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
        const std::int32_t again = packs.recompute_layers[k][s], held = plan.pipelines[p].layers[s];
        found.expect(again >= 0 && again <= held, pass_name(pass), "[", k, "].recompute_layers[", s, "] is ",
                     again, "; expected 0 to the ", held, " layers of stage ", s, " of pipeline ", p);
      }
    }
  }
}

inline void check_step_values(const Plan& plan, Violations& found) {
  const StepPlan& step = plan.step;
  const auto seconds = [&](const char* field, double value) {
    found.expect(value >= 0.0 && std::isfinite(value), "step.", field, " is ", value,
                 "; expected zero or a positive number");
  };
  seconds("seconds", step.seconds);
  seconds("sync_seconds", step.sync_seconds);
  seconds("pipeline_seconds", step.pipeline_seconds);
  seconds("lower_bound_seconds", step.lower_bound_seconds);
  found.expect(step.bubble_ratio >= 0.0 && step.bubble_ratio <= 1.0, "step.bubble_ratio is ",
               step.bubble_ratio, "; expected a fraction in [0, 1]");
  if (step.peak_bytes.empty()) return;
  found.expect(step.peak_bytes.size() == plan.pipelines.size(), "step.peak_bytes has ",
               step.peak_bytes.size(), " rows; expected one for each of ", plan.pipelines.size(),
               " pipelines");
  for (std::size_t p = 0; p < std::min(step.peak_bytes.size(), plan.pipelines.size()); ++p) {
    found.expect(step.peak_bytes[p].size() == plan.pipelines[p].stages(), "step.peak_bytes[", p, "] has ",
                 step.peak_bytes[p].size(), " entries; expected one for each of ", plan.pipelines[p].stages(),
                 " stages");
    for (const double bytes : step.peak_bytes[p]) {
      found.expect(bytes >= 0.0 && std::isfinite(bytes), "step.peak_bytes[", p, "] holds ", bytes,
                   "; expected zero or a positive number");
    }
  }
}

/// Numbers are finite and in range, layers add up. Of a plan whose shapes are right.
inline void check_values(const Plan& plan, Violations& found) {
  try {
    validate(plan.model);
  } catch (const InvalidInput& error) {
    found.expect(false, std::string(error.what()));
  }
  check_device(plan.device, found);
  for (std::size_t i = 0; i < plan.tokens.size(); ++i) {
    found.expect(plan.tokens[i] > 0, "tokens[", i, "] is ", plan.tokens[i], "; expected a positive number");
  }
  for (const PipelinePlan& pipeline : plan.pipelines) {
    std::int64_t layers = 0;
    for (const std::int32_t l : pipeline.layers) {
      layers += l;
      found.expect(l >= 0, "pipelines[", pipeline.id, "].layers holds ", l, "; expected numbers from 0");
    }
    found.expect(layers == plan.model.layers, "pipelines[", pipeline.id, "].layers sum to ", layers,
                 "; expected the model's ", plan.model.layers);
  }
  for (const Pass pass : {Pass::forward, Pass::backward}) check_pack_values(plan, pass, found);
  check_step_values(plan, found);
}

}  // namespace slimpack::detail
