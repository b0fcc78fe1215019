#pragma once

#include <cstddef>
#include <string>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/plan.hpp"

namespace campaign {

using namespace slimpack;

/// Where two plans differ; empty if they are the same.
[[nodiscard]] inline std::string difference(const Plan& a, const Plan& b) {
  const auto same_pass = [](const PassPlan& x, const PassPlan& y) {
    return x.packs == y.packs && x.pipelines == y.pipelines && x.seconds == y.seconds &&
           x.transfer_seconds == y.transfer_seconds && x.sharding == y.sharding &&
           x.recompute_layers == y.recompute_layers;
  };
  if (a.step.seconds != b.step.seconds)
    return concat("steps of ", a.step.seconds, " and ", b.step.seconds, " seconds");
  if (a.step.lower_bound_seconds != b.step.lower_bound_seconds) return "lower bounds";
  if (a.step.peak_bytes != b.step.peak_bytes) return "peaks of memory";
  if (!same_pass(a.forward, b.forward)) return "forward packs";
  if (!same_pass(a.backward, b.backward)) return "backward packs";
  if (a.pipelines.size() != b.pipelines.size()) return "numbers of pipelines";
  for (std::size_t p = 0; p < a.pipelines.size(); ++p) {
    if (a.pipelines[p].order != b.pipelines[p].order) return concat("orders of pipeline ", p);
  }
  return a.notes == b.notes ? "" : "notes";
}

}  // namespace campaign
