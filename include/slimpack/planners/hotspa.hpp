#pragma once

#include <span>
#include <vector>

#include "slimpack/planners/hotspa_options.hpp"
#include "slimpack/planners/hydraulis.hpp"
#include "slimpack/strategy/layouts.hpp"

namespace slimpack {

/// HotSPa (Ge et al., SOSP 2024), at its best: one homogeneous strategy after another within a step, each for a class
/// of lengths. Samples of a class are packed and run as `plan_megatron` does, with the strategy that is best for it;
/// between phases, parameters and gradients move (`plan_reshard`), which takes `step.switch_seconds`. Classes, their
/// strategies and their order are found together by a dynamic program; one class alone is a candidate, so that no plan
/// is longer than the best homogeneous one. The next step runs the phases in reverse order, and so begins with the
/// parameters where they are. docs/hydraulis.md says what differs from theirs.
/// @param strategies of pipelines of one kind, with devices.
/// @param make prices and memory of a kind of a strategy's pipelines, of any models (`price_models`).
/// @throws InvalidInput if the batch, a strategy or an option is impossible, or no strategy holds the longest sample.
/// Complexity: for each class that is tried, packing and scheduling on each strategy whose bound leaves something to
/// gain; and `plan_reshard` for pairs of the best strategies.
[[nodiscard]] Plan plan_hotspa(std::span<const Tokens> lengths, const Transformer& model,
                               const Device& device, std::span<const Strategy> strategies,
                               const MakeKindModels& make, const HotSpaOptions& options = {});

/// The same among the strategies of all layouts of the job's devices. @param job its layout says how many devices there
/// are, and no more.
[[nodiscard]] inline Plan plan_hotspa(std::span<const Tokens> lengths, const Job& job,
                                      const HotSpaOptions& options, const MakeKindModels& make) {
  validate(job);
  const Layout& given = job.layout;
  const std::int64_t devices = std::int64_t{given.dp} * given.tp * given.cp * given.pp;
  std::vector<Strategy> strategies;
  for (const Layout& layout : layouts(job.model, job.device, {.devices = devices})) {
    Job own = job;
    own.layout = layout;
    strategies.push_back(layout_strategy(own));
  }
  return plan_hotspa(lengths, job.model, job.device, strategies, make, options);
}

/// The same with models as `calibrated_kinds` makes them.
[[nodiscard]] inline Plan plan_hotspa(std::span<const Tokens> lengths, const Job& job,
                                      const HotSpaOptions& options = {}) {
  return plan_hotspa(lengths, job, options, calibrated_kinds(job.model, job.device));
}

}  // namespace slimpack

// Programs that link the library slimpack::planners find this there.
#ifndef SLIMPACK_COMPILED_PLANNERS

#include "slimpack/planners/hotspa_search.hpp"

namespace slimpack {

inline Plan plan_hotspa(std::span<const Tokens> lengths, const Transformer& model, const Device& device,
                        std::span<const Strategy> strategies, const MakeKindModels& make,
                        const HotSpaOptions& options) {
  return detail::search_hotspa(lengths, model, device, strategies, make, options);
}

}  // namespace slimpack

#endif
