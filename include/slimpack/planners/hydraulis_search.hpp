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

  /// Looks at a strategy: the least that any plan on it takes, with samples divided among kinds where that is cheapest.
  void look(const Strategy& strategy, const MakeKindModels& make) {
    std::vector<double> pipelines, seconds;
    double longest_chain = std::numeric_limits<double>::infinity();
    for (std::uint32_t k = 0; k < strategy.kinds(); ++k) {
      const KnownKind& kind = known(strategy, k, make);
      if (!kind.usable) return;
      pipelines.push_back(static_cast<double>(std::count(strategy.kind.begin(), strategy.kind.end(), k)));
      seconds.insert(seconds.end(), kind.seconds.begin(), kind.seconds.end());
      longest_chain = std::min(longest_chain, kind.longest_chain);
    }
    KindShares shares(pipelines);
    const double most = std::numeric_limits<double>::infinity();
    const double least = shares.solve(seconds, lengths_.size(), most, 1e-3).bound;
    Candidate own{&strategy, least, least};
    if (!options_.slices) own.bound = std::max(own.bound, longest_chain);
    own.bound += make(strategy, 0).prices.alone().sync_seconds();
    candidates_.push_back(own);
  }

  /// Plans on the candidates in the order of their bounds, until a bound is no less than the best plan. Of unequal pipelines only the
  /// first ones are planned, of equal ones all that can be best: so unequal pipelines never cost time.
  void choose(const MakeKindModels& make) {
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
    for (const Candidate& candidate : candidates_) {
      const bool unequal = candidate.strategy->kinds() > 1;
      if (unequal && unequal_ >= options_.most_unequal && found()) continue;
      // What replaces the strategy of the step before has to be better by some margin.
      const bool current = options_.current && *candidate.strategy == *options_.current;
      const double margin = current ? 1.0 + options_.hysteresis : 1.0;
      if (candidate.bound >= best_seconds_ * margin) continue;
      StrategyModels models(*candidate.strategy, make);
      const double sync = models.sync_seconds();
      StrategySchedules found = plan(models, best_seconds_ * margin - sync);
      ++planned_;
      if (unequal) ++unequal_;
      const double seconds = (found.seconds + sync) / margin;
      if (seconds >= best_seconds_) continue;
      best_seconds_ = seconds;
      best_least_ = candidate.least;
      best_.emplace(std::move(models));
      schedules_ = std::move(found);
    }
  }

  [[nodiscard]] bool found() const { return best_.has_value(); }
  [[nodiscard]] StrategyModels& models() { return *best_; }
  /// What samples take at least on the best strategy's pipelines, if parts of a sample cost no less than the whole.
  [[nodiscard]] double least_seconds() const { return best_least_; }
  [[nodiscard]] StrategySchedules take_schedules() { return std::move(schedules_); }
  [[nodiscard]] std::size_t candidates() const { return candidates_.size(); }
  [[nodiscard]] std::size_t planned() const { return planned_; }
  /// Why the first kind of pipelines that can't be used can't; empty if all can.
  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  struct Candidate {
    const Strategy* strategy;
    double least;  // seconds of samples that are divided among kinds where that is cheapest
    double bound;  // seconds of plans as options allow, synchronisation included
  };

  /// What is known of pipelines of a kind, whatever the strategy.
  struct KnownKind {
    PipelineSpec spec;
    bool usable = true;
    std::vector<double> seconds;  // [sample] on the busiest stage
    double longest_chain = 0.0;   // of the longest sample, uncut, one stage after another in both passes
  };

  [[nodiscard]] const KnownKind& known(const Strategy& strategy, std::uint32_t k,
                                       const MakeKindModels& make) {
    const PipelineSpec& spec = strategy.spec_of_kind(k);
    const auto seen = std::find_if(known_.begin(), known_.end(),
                                   [&](const auto& kind) { return same_kind(kind->spec, spec); });
    if (seen != known_.end()) return **seen;
    known_.push_back(std::make_unique<KnownKind>(KnownKind{spec, true, {}}));
    KnownKind& own = *known_.back();
    try {
      PricedModels models = make(strategy, k);
      const SamplePrices prices(lengths_, {}, models.prices);
      const Tokens longest = *std::max_element(lengths_.begin(), lengths_.end());
      if (largest_full_pack(models.memory, std::numeric_limits<std::int32_t>::max()) < longest) {
        own.longest_chain = std::numeric_limits<double>::infinity();
      } else {
        for (const Pass pass : {Pass::forward, Pass::backward})
          own.longest_chain += models.prices.alone().pipeline_seconds(0, longest, pass);
      }
      for (SampleId id = 0; id < lengths_.size(); ++id) own.seconds.push_back(prices.whole(id));
    } catch (const InvalidInput& error) {
      own.usable = false;
      if (reason_.empty()) reason_ = error.what();
    }
    return own;
  }

  [[nodiscard]] StrategySchedules plan(StrategyModels& models, double most) const {
    StrategySchedules best = TwoStageAssignment(lengths_, models, options_.two_stage)(most);
    if (!options_.slices) return best;
    StrategySchedules sliced = SlicedStrategy(lengths_, models, options_.slimpack)(options_.rounds);
    return sliced.seconds < best.seconds ? std::move(sliced) : std::move(best);
  }

  std::span<const Tokens> lengths_;
  const HydraulisOptions& options_;
  std::vector<std::unique_ptr<KnownKind>> known_;
  std::vector<Candidate> candidates_;
  std::optional<StrategyModels> best_;
  double best_seconds_ = std::numeric_limits<double>::infinity();
  double best_least_ = 0.0;
  StrategySchedules schedules_;
  std::size_t planned_ = 0, unequal_ = 0;
  std::string reason_;
};

/// Whether the prices of all kinds give a lower bound (`step_lower_bound`).
[[nodiscard]] inline bool parts_cost_no_less(std::span<const Tokens> lengths, StrategyModels& models) {
  for (std::size_t k = 0; k < models.kinds(); ++k) {
    if (!step_lower_bound(lengths, models.pipelines(k).size(), models.prices(k)).exists) return false;
  }
  return true;
}

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
  choice.choose(make);
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  require(choice.found(), "a sample of ", longest, " tokens fits none of ", strategies.size(),
          " strategies; expected shorter samples, more devices or more memory",
          choice.reason().empty() ? "" : concat(" (", choice.reason(), ")"));
  StrategyModels& models = choice.models();
  StrategySchedules schedules = choice.take_schedules();
  Plan plan = assemble_plan(options.slices ? "hydraulis-slices" : "hydraulis", lengths, model, device,
                            models.strategy(), std::move(schedules.placed), models.sync_seconds());
  const bool additive = parts_cost_no_less(lengths, models);
  state_lower_bound(additive ? choice.least_seconds() : 0.0, additive, plan);
  plan.notes.push_back(concat("strategy: ", to_text(models.strategy()), ", the best of ", choice.candidates(),
                              ", of which ", choice.planned(), " were planned"));
  return plan;
}

}  // namespace slimpack::detail
