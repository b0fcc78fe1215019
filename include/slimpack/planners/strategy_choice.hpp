#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/planners/hydraulis_options.hpp"
#include "slimpack/planners/sliced_strategy.hpp"
#include "slimpack/planners/two_stage.hpp"
#include "slimpack/planners/whole_sample_plan.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "slimpack/strategy/strategy_bounds.hpp"
#include "slimpack/strategy/strategy_order.hpp"
#include "slimpack/strategy/strategy_set.hpp"

namespace slimpack::detail {

/// The best plan of candidate strategies for a batch.
class StrategyChoice {
 public:
  /// All have to outlive this.
  StrategyChoice(std::span<const Tokens> lengths, const StrategySet& set, const HydraulisOptions& options)
      : lengths_(lengths), set_(set), options_(options), bounds_(lengths, set) {}

  /// Plans whole samples on strategies in the order of their estimates.
  /// @param freedom not slices. What one allows is planned apart from what less allows, so that it never makes a step
  /// longer.
  void plan_whole_samples(PlanFreedom freedom) {
    TwoStageOptions two_stage = options_.two_stage;
    two_stage.recompute = freedom == PlanFreedom::recompute;
    const bool full = lengths_.size() <= options_.most_in_full;
    if (full) two_stage.close = std::numeric_limits<double>::infinity();
    const double stop = full ? 1.0 : 1.0 + options_.beyond;
    const std::size_t limit = full ? options_.most_planned : (options_.most_planned + 1) / 2;
    StrategiesByEstimate order(by_bound(freedom), bounds_, freedom);
    for (std::size_t planned = 0; planned < limit; ++planned) {
      const std::optional<RankedStrategy> next = order.next(seconds_);
      if (!next || next->seconds * stop >= seconds_) break;
      plan(*next, [&](StrategyModels& models, double most) {
        const std::vector<double> seconds = bounds_.times().latencies(next->strategy);
        return TwoStageAssignment(lengths_, models, seconds, two_stage)(most);
      });
    }
  }

  /// Deals packs of whole samples to pipelines in turn, as `plan_megatron` does, on all strategies of equal pipelines that can
  /// be best, so that a small batch never takes longer than these.
  void plan_packs_in_turn() {
    if (!options_.two_stage.recompute || lengths_.size() > options_.most_in_full) return;
    static constexpr std::size_t alone = 1;
    for (const RankedStrategy& own : by_bound(PlanFreedom::recompute)) {
      if (own.bound >= seconds_) break;
      if (set_.kinds(own.strategy).size() > 1) continue;
      plan(own, [&](StrategyModels& models, double most) {
        Scheduler scheduler(lengths_, models.prices(0), models.memory(0));
        return placed_groups(
            best_whole_samples(lengths_, models.max_tokens(0, true), models.pipelines(0).size(), {&alone, 1},
                               scheduler, {.fit = FitPolicy::recompute}, most),
            scheduler);
      });
    }
  }

  /// Cuts samples, on strategies in the order of their bounds: on all of equal pipelines that can be best, so that
  /// unequal ones never cost time, and on some of unequal pipelines.
  void plan_slices() {
    std::size_t unequal = 0;
    for (const RankedStrategy& own : by_bound(PlanFreedom::slices)) {
      const bool mixed = set_.kinds(own.strategy).size() > 1;
      if (own.bound >= seconds_ || (mixed && unequal >= options_.most_unequal && found())) continue;
      if (mixed) ++unequal;
      plan(own, [&](StrategyModels& models, double) {
        SlicedStrategy sliced(lengths_, models, bounds_.times().latencies(own.strategy), options_.slimpack);
        return sliced(options_.rounds);
      });
    }
  }

  [[nodiscard]] bool found() const { return best_ < set_.size(); }
  /// The best strategy's place in the set.
  [[nodiscard]] std::size_t best() const { return best_; }
  /// Seconds of all samples on the best strategy, however they are cut and divided.
  [[nodiscard]] double divided_samples() { return bounds_.divided(best_, PlanFreedom::slices); }
  [[nodiscard]] StrategySchedules take_schedules() { return std::move(schedules_); }
  [[nodiscard]] std::size_t planned() const { return planned_; }

 private:
  [[nodiscard]] std::vector<RankedStrategy> by_bound(PlanFreedom freedom) {
    return strategies_by_bound(set_, bounds_, freedom, options_.current, options_.hysteresis);
  }

  /// Keeps a strategy's plan if it is the best. @param make schedules, or none if they take so long or longer.
  template <class Make>
  void plan(const RankedStrategy& own, const Make& make) {
    StrategyModels models = set_.models(own.strategy);
    const double sync = models.sync_seconds();
    StrategySchedules found = make(models, seconds_ * own.margin - sync);
    ++planned_;
    const double step = (found.seconds + sync) / own.margin;
    if (step >= seconds_) return;
    seconds_ = step;
    best_ = own.strategy;
    schedules_ = std::move(found);
  }

  std::span<const Tokens> lengths_;
  const StrategySet& set_;
  const HydraulisOptions& options_;
  StrategyBounds bounds_;
  std::size_t best_ = std::numeric_limits<std::size_t>::max();
  double seconds_ = std::numeric_limits<double>::infinity();
  StrategySchedules schedules_;
  std::size_t planned_ = 0;
};

}  // namespace slimpack::detail
