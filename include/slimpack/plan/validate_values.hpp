#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
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

/// Layers of a pack that are treated specially on each stage, such as `recompute_layers`.
inline void check_layer_counts(const Plan& plan, const char* list, const Ragged<std::int32_t>& rows,
                               std::size_t k, Violations& found) {
  if (rows.empty() || rows[k].empty()) return;
  for (const PipelineId p : plan.backward.pipelines[k]) {
    for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
      const std::int32_t count = rows[k][s], held = plan.pipelines[p].layers[s];
      found.expect(count >= 0 && count <= held, "backward[", k, "].", list, "[", s, "] is ", count,
                   "; expected 0 to the ", held, " layers of stage ", s, " of pipeline ", p);
    }
  }
}

inline void check_pack_values(const Plan& plan, Pass pass, Violations& found) {
  const PassPlan& packs = plan.of(pass);
  const auto not_negative = [&](const char* list, std::size_t k, std::span<const double> row) {
    for (const double seconds : row) {
      found.expect(seconds >= 0.0 && std::isfinite(seconds), pass_name(pass), "[", k, "].", list, " holds ",
                   seconds, "; expected zero or positive numbers");
    }
  };
  for (std::size_t k = 0; k < packs.packs.size(); ++k) {
    for (const double seconds : packs.seconds[k]) {
      found.expect(seconds > 0.0 && std::isfinite(seconds), pass_name(pass), "[", k, "].seconds holds ",
                   seconds, "; expected positive numbers");
    }
    not_negative("transfer_seconds", k, packs.transfer_seconds[k]);
    if (pass == Pass::forward) continue;
    if (!packs.weight_seconds.empty()) not_negative("weight_seconds", k, packs.weight_seconds[k]);
    check_layer_counts(plan, "recompute_layers", packs.recompute_layers, k, found);
    check_layer_counts(plan, "offload_layers", packs.offload_layers, k, found);
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
  for (std::size_t i = 0; i < step.switch_seconds.size(); ++i)
    seconds(concat("switch_seconds[", i, "]").c_str(), step.switch_seconds[i]);
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

/// Lengths are positive, and so are all their sums.
inline void check_tokens_sum(const Plan& plan, Violations& found) {
  Tokens room = std::numeric_limits<Tokens>::max();
  for (std::size_t i = 0; i < plan.tokens.size(); ++i) {
    found.expect(plan.tokens[i] > 0, "tokens[", i, "] is ", plan.tokens[i], "; expected a positive number");
    found.expect(plan.tokens[i] <= room, "tokens[", i, "] is ", plan.tokens[i],
                 "; expected lengths whose sum is below 2^63");
    if (plan.tokens[i] > room) return;
    room -= std::max(plan.tokens[i], Tokens{0});
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
  check_tokens_sum(plan, found);
  for (const PipelinePlan& pipeline : plan.pipelines) {
    std::int64_t layers = 0;
    for (const std::int32_t l : pipeline.layers) {
      layers += l;
      found.expect(l >= 0, "pipelines[", pipeline.id, "].layers holds ", l, "; expected numbers from 0");
    }
    found.expect(layers == plan.model.layers, "pipelines[", pipeline.id, "].layers sum to ", layers,
                 "; expected the model's ", plan.model.layers);
  }
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    check_pack_values(plan, pass, found);
    found.expect(plan.of(pass).block >= 0, pass_name(pass), ": block is ", plan.of(pass).block,
                 "; expected a positive number of tokens, or 0 where it is not stated");
  }
  check_step_values(plan, found);
}

}  // namespace slimpack::detail
