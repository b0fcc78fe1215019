#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/planners/hydraulis_options.hpp"
#include "slimpack/strategy/calibrated_kinds.hpp"
#include "slimpack/strategy/candidate_strategies.hpp"
#include "slimpack/strategy/strategy_set.hpp"

namespace slimpack {

/// Hydraulis: pipelines of unequal kinds, chosen for each batch. Long samples run on pipelines that hold them, short ones on
/// those that are fastest. Of the given strategies, the one with the shortest simulated step wins; a strategy's plan is made by
/// the two-stage assignment, samples to pipelines and then to packs, or with `HydraulisOptions::slices` as `plan_slimpack` does.
/// What is known before any batch is found out once. Source: Hydraulis, sections 4 and 6.
class HydraulisPlanner {
 public:
  /// @param strategies at least one, for example `candidate_strategies` of the data set.
  /// @param make prices and memory of a kind of a strategy's pipelines, of any models (`price_models`).
  /// @throws InvalidInput if a strategy or an option is impossible. O(strategies * devices), and `make` for each of their kinds.
  HydraulisPlanner(Transformer model, Device device, std::vector<Strategy> strategies,
                   const MakeKindModels& make, HydraulisOptions options = {})
      : model_(std::move(model)),
        device_(std::move(device)),
        strategies_(std::move(strategies)),
        options_(std::move(options)) {
    require(!strategies_.empty(), "there are no strategies; expected at least one");
    require(options_.rounds > 0, "rounds is 0; expected at least 1");
    require(options_.hysteresis >= 0.0, "hysteresis is ", options_.hysteresis, "; expected 0 or more");
    require(options_.most_planned > 0, "most_planned is 0; expected at least 1");
    if (options_.current) {
      std::erase(strategies_, *options_.current);
      strategies_.insert(strategies_.begin(), *options_.current);
    }
    set_.emplace(model_, strategies_, make);
    require(!options_.current || (set_->size() > 0 && set_->strategy(0) == *options_.current),
            "the strategy of the step before can't be used: ", set_->reason());
  }
  HydraulisPlanner(const HydraulisPlanner&) = delete;
  HydraulisPlanner& operator=(const HydraulisPlanner&) = delete;

  /// The plan of a batch. @throws InvalidInput if the batch is impossible, or no strategy holds the longest sample.
  /// O(strategies * samples) for bounds, and a quick plan for each strategy that can be best.
  [[nodiscard]] Plan operator()(std::span<const Tokens> lengths);

 private:
  Transformer model_;
  Device device_;
  std::vector<Strategy> strategies_;
  HydraulisOptions options_;
  std::optional<StrategySet> set_;
};

/// The plan of one batch by `HydraulisPlanner`.
[[nodiscard]] inline Plan plan_hydraulis(std::span<const Tokens> lengths, const Transformer& model,
                                         const Device& device, std::span<const Strategy> strategies,
                                         const MakeKindModels& make, const HydraulisOptions& options = {}) {
  return HydraulisPlanner(model, device, {strategies.begin(), strategies.end()}, make, options)(lengths);
}

/// The same among the strategies that are proposed for a data set.
/// @param job its layout says how many devices there are, and no more. @param histogram of the data set; the batch's own will do.
[[nodiscard]] inline Plan plan_hydraulis(std::span<const Tokens> lengths, const Job& job,
                                         const LengthHistogram& histogram, const HydraulisOptions& options,
                                         StrategySpace space, const MakeKindModels& make) {
  validate(job);
  space.schemes.devices = std::int64_t{job.layout.dp} * job.layout.tp * job.layout.cp * job.layout.pp;
  const std::vector<Strategy> strategies =
      candidate_strategies(histogram, job.model, job.device, make, space, options.two_stage.recompute);
  return plan_hydraulis(lengths, job.model, job.device, strategies, make, options);
}

/// The same for strategies that are proposed for the batch itself, with models as `calibrated_kinds` makes them.
[[nodiscard]] inline Plan plan_hydraulis(std::span<const Tokens> lengths, const Job& job,
                                         const HydraulisOptions& options = {}) {
  validate_batch(lengths);
  return plan_hydraulis(lengths, job, LengthHistogram(lengths), options, {},
                        calibrated_kinds(job.model, job.device));
}

}  // namespace slimpack

// Programs that link the library slimpack::planners find this there.
#ifndef SLIMPACK_COMPILED_PLANNERS

#include "slimpack/planners/hydraulis_search.hpp"

namespace slimpack {

inline Plan HydraulisPlanner::operator()(std::span<const Tokens> lengths) {
  return detail::search_hydraulis(lengths, model_, device_, *set_, options_);
}

}  // namespace slimpack

#endif
