#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <queue>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/planners/hydraulis_options.hpp"
#include "slimpack/planners/sliced_strategy.hpp"
#include "slimpack/planners/two_stage.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "slimpack/schedule/full_pack.hpp"
#include "slimpack/schedule/idle_schedule.hpp"
#include "slimpack/strategy/strategy_bounds.hpp"
#include "slimpack/strategy/strategy_set.hpp"

namespace slimpack::detail {

/// Best-fit packs of whole samples that equal pipelines get in turn, as `plan_megatron` makes them, with the length of
/// packs that is fastest. @param most gives up if that takes so long or longer. @pre all pipelines are of one kind.
[[nodiscard]] inline StrategySchedules packs_in_turn(std::span<const Tokens> lengths, StrategyModels& models,
                                                     double most) {
  static constexpr std::size_t alone = 1;
  const std::span<const PipelineId> pipelines = models.pipelines(0);
  Scheduler scheduler(lengths, models.prices(0), models.memory(0));
  WholeSamplePlan found = best_whole_samples(lengths, models.max_tokens(0, true), pipelines.size(),
                                             {&alone, 1}, scheduler, {.fit = FitPolicy::recompute}, most);
  StrategySchedules out{.placed = {}, .seconds = found.seconds};
  for (std::size_t p = 0; p < found.schedules.size(); ++p)
    out.placed.push_back(
        place_or_idle(pipelines[p], std::move(found.schedules[p]), scheduler, models.memory(0)));
  return out;
}

/// The best plan of candidate strategies for a batch.
class StrategyChoice {
 public:
  /// All have to outlive this.
  StrategyChoice(std::span<const Tokens> lengths, const StrategySet& set, const HydraulisOptions& options)
      : lengths_(lengths), set_(set), options_(options), bounds_(lengths, set) {}

  /// Plans whole samples on strategies in the order of their estimates. These are made only where a bound is below
  /// those of others.
  /// @param freedom not slices. What one allows is planned apart from what less allows, so that it never makes a step
  /// longer.
  void plan_whole_samples(PlanFreedom freedom) {
    std::priority_queue<Candidate> candidates;
    for (const Candidate& own : candidates_with(freedom)) candidates.push(own);
    TwoStageOptions two_stage = options_.two_stage;
    two_stage.recompute = freedom == PlanFreedom::recompute;
    const bool full = lengths_.size() <= options_.most_in_full;
    if (full) two_stage.close = infinite;
    const double stop = full ? 1.0 : 1.0 + options_.beyond;
    const std::size_t limit = full ? options_.most_planned : (options_.most_planned + 1) / 2;
    for (std::size_t planned = 0; !candidates.empty() && planned < limit;) {
      Candidate own = candidates.top();
      candidates.pop();
      if (own.bound >= seconds_) continue;
      if (!own.estimated) {
        own.estimated = true;
        // The strategy of the step before is planned first.
        own.seconds = own.margin > 1.0
                          ? 0.0
                          : std::max(own.bound, bounds_.estimate(own.strategy, freedom) / own.margin);
        candidates.push(own);
        continue;
      }
      if (own.seconds * stop >= seconds_) break;
      ++planned;
      plan(own, [&](StrategyModels& models, double most) {
        const std::vector<double> seconds = bounds_.times().latencies(own.strategy);
        return TwoStageAssignment(lengths_, models, seconds, two_stage)(most);
      });
    }
  }

  /// Tries `packs_in_turn` on all strategies of equal pipelines that can be best, so that a small batch never takes
  /// longer than these.
  void plan_packs_in_turn() {
    if (!options_.two_stage.recompute || lengths_.size() > options_.most_in_full) return;
    for (const Candidate& own : by_bound(PlanFreedom::recompute)) {
      if (own.bound >= seconds_) break;
      if (set_.kinds(own.strategy).size() > 1) continue;
      plan(own, [&](StrategyModels& models, double most) { return packs_in_turn(lengths_, models, most); });
    }
  }

  /// Cuts samples, on strategies in the order of their bounds: on all of equal pipelines that can be best, so that
  /// unequal ones never cost time, and on some of unequal pipelines.
  void plan_slices() {
    std::size_t unequal = 0;
    for (const Candidate& own : by_bound(PlanFreedom::slices)) {
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
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Seconds are of a step, divided by the margin by which another strategy has to be better.
  struct Candidate {
    std::size_t strategy;
    double margin;
    double bound;
    double seconds;  // bound or estimate
    bool estimated = false;

    [[nodiscard]] bool operator<(const Candidate& other) const {
      return seconds > other.seconds || (seconds == other.seconds && strategy > other.strategy);
    }
  };

  [[nodiscard]] double margin_of(std::size_t i) const {
    const bool current = options_.current && set_.strategy(i) == *options_.current;
    return current ? 1.0 + options_.hysteresis : 1.0;
  }

  /// The strategies that hold the longest sample.
  [[nodiscard]] std::vector<Candidate> candidates_with(PlanFreedom freedom) {
    std::vector<Candidate> candidates;
    candidates.reserve(set_.size());
    for (std::size_t i = 0; i < set_.size(); ++i) {
      if (!bounds_.holds(i, freedom)) continue;
      const double margin = margin_of(i), bound = bounds_(i, freedom) / margin;
      candidates.push_back({i, margin, bound, bound});
    }
    return candidates;
  }

  /// The same, the lowest bound first.
  [[nodiscard]] std::vector<Candidate> by_bound(PlanFreedom freedom) {
    std::vector<Candidate> candidates = candidates_with(freedom);
    std::stable_sort(candidates.rbegin(), candidates.rend());
    return candidates;
  }

  /// Keeps a strategy's plan if it is the best. @param make schedules, or none if they take so long or longer.
  template <class Make>
  void plan(const Candidate& own, const Make& make) {
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
  double seconds_ = infinite;
  StrategySchedules schedules_;
  std::size_t planned_ = 0;
};

/// @throws InvalidInput that says what comes closest to holding the longest sample.
[[noreturn]] inline void refuse_longest(Tokens longest, const StrategySet& set, bool recompute) {
  std::string closest;
  Tokens most = -1;
  for (std::size_t i = 0; i < set.size(); ++i) {
    for (std::uint32_t n = 0; n < set.kinds(i).size(); ++n) {
      const PipelineModels& models = set.pipelines()[set.kinds(i)[n]];
      if (models.most(recompute) <= most) continue;
      most = models.most(recompute);
      closest = concat("; (", to_text(set.strategy(i).spec_of_kind(n)), ") comes closest with ", most,
                       ", and ", lacks_text(models.priced->memory, longest, recompute));
    }
  }
  throw InvalidInput(concat("a sample of ", longest, " tokens fits none of ", set.size(), " strategies",
                            closest, "; expected shorter samples, more devices or more memory",
                            set.reason().empty() ? "" : concat(" (", set.reason(), ")")));
}

/// `plan_hydraulis` among known strategies.
[[nodiscard]] inline Plan search_hydraulis(std::span<const Tokens> lengths, const Transformer& model,
                                           const Device& device, const StrategySet& set,
                                           const HydraulisOptions& options) {
  validate_batch(lengths);
  StrategyChoice choice(lengths, set, options);
  choice.plan_whole_samples(PlanFreedom::whole);
  if (options.two_stage.recompute) choice.plan_whole_samples(PlanFreedom::recompute);
  choice.plan_packs_in_turn();
  if (options.slices) choice.plan_slices();
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  if (!choice.found()) refuse_longest(longest, set, options.two_stage.recompute);
  StrategyModels models = set.models(choice.best());
  StrategySchedules schedules = choice.take_schedules();
  Plan plan = assemble_plan(options.slices ? "hydraulis-slices" : "hydraulis", lengths, model, device,
                            models.strategy(), std::move(schedules.placed), models.sync_seconds());
  // Of any plan on these pipelines, samples that are cut included.
  const bool additive = parts_cost_no_less(lengths, models);
  state_lower_bound(additive ? choice.divided_samples() : 0.0, additive, plan);
  plan.notes.push_back(concat("strategy: ", to_text(models.strategy()), ", the best of ", set.size(), "; ",
                              choice.planned(), choice.planned() == 1 ? " plan was" : " plans were",
                              " compared"));
  plan.notes.insert(plan.notes.end(), models.missing().begin(), models.missing().end());
  return plan;
}

}  // namespace slimpack::detail
