#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/planners/hydraulis_options.hpp"
#include "slimpack/planners/sliced_strategy.hpp"
#include "slimpack/planners/two_stage.hpp"
#include "slimpack/schedule/lower_bound.hpp"

namespace slimpack::detail {

/// A strategy as text, such as "1 x (tp 8, cp 1, pp 1) + 12 x (tp 2, cp 1, pp 1)".
[[nodiscard]] inline std::string to_text(const Strategy& strategy) {
  std::string text;
  for (std::uint32_t k = 0; k < strategy.kinds(); ++k) {
    const PipelineSpec& spec = strategy.spec_of_kind(k);
    text += concat(text.empty() ? "" : " + ", std::count(strategy.kind.begin(), strategy.kind.end(), k),
                   " x (tp ", spec.tp, ", cp ", spec.cp, ", pp ", spec.stages(), ")");
  }
  return text;
}

/// Finds the best of candidate strategies for a batch.
class StrategyChoice {
 public:
  StrategyChoice(std::span<const Tokens> lengths, const HydraulisOptions& options)
      : lengths_(lengths), options_(options) {}

  /// Looks at a strategy: its models and the least that any plan on it takes. @returns why it can't be used; empty if it can.
  void look(const Strategy& strategy, const MakeKindModels& make) {
    try {
      auto models = std::make_unique<StrategyModels>(strategy, make);
      const double bound = least_seconds(*models) + models->sync_seconds();
      candidates_.push_back({std::move(models), bound});
    } catch (const InvalidInput& error) {
      if (reason_.empty()) reason_ = concat(to_text(strategy), ": ", error.what());
    }
  }

  /// Plans on the candidates in the order of their bounds, until a bound is no less than the best plan.
  void choose() {
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
    for (std::size_t c = 0; c < candidates_.size(); ++c) {
      const bool current = options_.current && candidates_[c].models->strategy() == *options_.current;
      // The strategy of the step before is planned in any case: what replaces it has to be better by some margin.
      if (candidates_[c].bound >= best_seconds_ && !current) continue;
      const double sync = candidates_[c].models->sync_seconds();
      StrategySchedules found =
          plan(*candidates_[c].models, best_seconds_ * (current ? 1.0 + options_.hysteresis : 1.0) - sync);
      ++planned_;
      const double seconds = (found.seconds + sync) / (current ? 1.0 + options_.hysteresis : 1.0);
      if (seconds >= best_seconds_) continue;
      best_seconds_ = seconds;
      best_ = c;
      schedules_ = std::move(found);
    }
  }

  [[nodiscard]] bool found() const { return best_.has_value(); }
  [[nodiscard]] StrategyModels& models() { return *candidates_[*best_].models; }
  [[nodiscard]] StrategySchedules take_schedules() { return std::move(schedules_); }
  [[nodiscard]] std::size_t candidates() const { return candidates_.size(); }
  [[nodiscard]] std::size_t planned() const { return planned_; }
  /// Why the first strategy that can't be used can't; empty if all can.
  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  struct Candidate {
    std::unique_ptr<StrategyModels> models;
    double bound;
  };

  /// Seconds of any plan on these pipelines, without synchronisation: what divisible samples take where each is cheapest.
  [[nodiscard]] double least_seconds(StrategyModels& models) const {
    std::vector<PipelineKind> kinds;
    for (std::size_t k = 0; k < models.kinds(); ++k)
      kinds.push_back({.max_tokens = longest(), .stages = 1, .pipelines = models.pipelines(k).size()});
    std::vector<double> seconds = sample_seconds(models, lengths_);
    // A sample that pipelines share takes its part on each of them.
    if (options_.slices) {
      for (std::size_t k = 0; k < kinds.size(); ++k) {
        for (std::size_t i = 0; i < lengths_.size(); ++i)
          seconds[k * lengths_.size() + i] /= static_cast<double>(kinds[k].pipelines);
        kinds[k].pipelines = 1;
      }
    }
    return dispatch_lower_bound({.lengths = lengths_, .kinds = kinds, .seconds = seconds}, 1e-3).seconds;
  }

  [[nodiscard]] Tokens longest() const { return *std::max_element(lengths_.begin(), lengths_.end()); }

  [[nodiscard]] StrategySchedules plan(StrategyModels& models, double most) const {
    StrategySchedules best = TwoStageAssignment(lengths_, models, options_.two_stage)(most);
    if (!options_.slices) return best;
    StrategySchedules sliced = SlicedStrategy(lengths_, models, options_.slimpack)(options_.rounds);
    return sliced.seconds < best.seconds ? std::move(sliced) : std::move(best);
  }

  std::span<const Tokens> lengths_;
  const HydraulisOptions& options_;
  std::vector<Candidate> candidates_;
  std::optional<std::size_t> best_;
  double best_seconds_ = std::numeric_limits<double>::infinity();
  StrategySchedules schedules_;
  std::size_t planned_ = 0;
  std::string reason_;
};

/// `plan_hydraulis` among given strategies.
[[nodiscard]] inline Plan search_hydraulis(std::span<const Tokens> lengths, const Transformer& model,
                                           const Device& device, std::span<const Strategy> strategies,
                                           const MakeKindModels& make, const HydraulisOptions& options) {
  validate_batch(lengths, 1);
  require(!strategies.empty(), "there are no strategies; expected at least one");
  require(options.rounds > 0, "rounds is 0; expected at least 1");
  require(options.hysteresis >= 0.0, "hysteresis is ", options.hysteresis, "; expected 0 or more");
  for (const Strategy& strategy : strategies) validate(strategy, model);
  StrategyChoice choice(lengths, options);
  for (const Strategy& strategy : strategies) choice.look(strategy, make);
  choice.choose();
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  require(choice.found(), "a sample of ", longest, " tokens fits none of ", strategies.size(),
          " strategies; expected shorter samples, more devices or more memory",
          choice.reason().empty() ? "" : concat(" (", choice.reason(), ")"));
  StrategyModels& models = choice.models();
  StrategySchedules schedules = choice.take_schedules();
  Plan plan = assemble_plan(options.slices ? "hydraulis-slices" : "hydraulis", lengths, model, device,
                            models.strategy(), std::move(schedules.placed), models.sync_seconds());
  plan.notes.push_back(concat("strategy: ", to_text(models.strategy()), ", the best of ", choice.candidates(),
                              ", of which ", choice.planned(), " were planned"));
  return plan;
}

}  // namespace slimpack::detail
