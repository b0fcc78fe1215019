#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/partition/packing.hpp"
#include "slimpack/plan/assemble.hpp"
#include "slimpack/planners/homogeneous_strategy.hpp"
#include "slimpack/planners/hotspa_options.hpp"
#include "slimpack/planners/length_classes.hpp"
#include "slimpack/planners/phase_chain.hpp"
#include "slimpack/planners/strategy_models.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "slimpack/schedule/lower_bound.hpp"
#include "slimpack/strategy/reshard.hpp"
#include "slimpack/strategy/reshard_seconds.hpp"
#include "slimpack/strategy/reshard_shards.hpp"

namespace slimpack::detail {

/// Finds the classes of lengths, and the strategy of each.
class HotSpaSearch {
 public:
  /// All have to outlive this.
  HotSpaSearch(std::span<const Tokens> lengths, const Transformer& model, const Device& device,
               const HotSpaOptions& options)
      : lengths_(lengths),
        model_(model),
        device_(device),
        options_(options),
        classes_(lengths, options.thresholds) {}

  /// Adds a strategy of equal pipelines, unless its models can't be made.
  void add(const Strategy& strategy, const MakeKindModels& make) {
    try {
      strategies_.push_back(std::make_unique<HomogeneousStrategy>(strategy, make, lengths_));
    } catch (const InvalidInput& error) {
      if (reason_.empty()) reason_ = error.what();
    }
  }

  /// @returns no phases if some samples fit no strategy.
  [[nodiscard]] std::vector<Phase> operator()() {
    const std::size_t n = classes_.parts();
    std::vector<std::vector<ClassPlan>> plans(n * n);  // [first part * n + last part]
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = a; b < n; ++b) {
        if (options_.most_classes == 1 && (a > 0 || b + 1 < n)) continue;
        plans[a * n + b] = rivals(classes_.begin(a), classes_.end(b));
      }
    }
    return best_chain(
        classes_, plans, options_.most_classes,
        [&](std::size_t from, std::size_t to) { return switch_seconds(from, to); },
        [&](std::size_t s) { return strategies_[s]->sync_seconds(); });
  }

  [[nodiscard]] const LengthClasses& classes() const { return classes_; }
  [[nodiscard]] HomogeneousStrategy& strategy(std::size_t s) { return *strategies_[s]; }
  [[nodiscard]] std::size_t strategies() const { return strategies_.size(); }
  /// Why the first strategy that can't be used can't; empty if all can.
  [[nodiscard]] const std::string& reason() const { return reason_; }

  /// Plans the samples of a class on a strategy; packs may be as long as those of all samples. @param own their lengths.
  [[nodiscard]] WholeSamplePlan plan(std::size_t s, Scheduler& scheduler, std::span<const Tokens> own,
                                     double most) const {
    static constexpr std::size_t alone = 1;
    const Tokens context = std::max(options_.context, classes_.longest());
    return best_whole_samples(own, context, strategies_[s]->pipelines(), {&alone, 1}, scheduler,
                              {.fit = FitPolicy::recompute}, most);
  }

  /// Seconds between a phase and the next: parameters go from where one strategy has them to where the next one needs them, and
  /// gradients to the optimiser's shards that the next one is aligned with.
  [[nodiscard]] double switch_seconds(std::size_t from, std::size_t to) {
    if (from == to) return 0.0;
    const auto [known, added] = switches_.try_emplace({from, to}, 0.0);
    if (!added) return known->second;
    const ParameterShards before = propagation_shards(strategies_[from]->strategy(), model_);
    const ParameterShards after = propagation_shards(strategies_[to]->strategy(), model_);
    const ParameterShards optimiser = aligned_shards(strategies_[to]->strategy(), model_);
    const double pull =
        reshard_seconds(plan_reshard(before, after, device_), device_, options_.weight_bytes).slowest();
    const double push =
        reshard_seconds(plan_reshard(optimiser, before, device_), device_, options_.gradient_bytes).slowest();
    return known->second = pull + push;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// The strategies with which a class, and the synchronisation, take least.
  [[nodiscard]] std::vector<ClassPlan> rivals(std::size_t begin, std::size_t end) {
    const std::vector<SampleId> ids = classes_.samples(begin, end);
    const std::vector<Tokens> own = classes_.lengths_of(ids);
    std::vector<std::pair<double, std::size_t>> order;  // by what they take at least
    order.reserve(strategies_.size());
    for (std::size_t s = 0; s < strategies_.size(); ++s) {
      if (!strategies_[s]->may_hold(classes_.length(end - 1))) continue;
      double least = strategies_[s]->sync_seconds();
      for (const SampleId id : ids) least += strategies_[s]->seconds(id);
      order.emplace_back(least, s);
    }
    std::sort(order.begin(), order.end());
    std::vector<std::pair<double, ClassPlan>> best;
    for (const auto& [least, s] : order) {
      const bool full = best.size() == options_.rivals;
      if (full && least >= best.back().first) break;
      const double sync = strategies_[s]->sync_seconds();
      Scheduler scheduler(own, strategies_[s]->prices(), strategies_[s]->memory());
      const double most = full ? best.back().first - sync : infinite;
      const WholeSamplePlan found = plan(s, scheduler, own, most);
      if (!(found.seconds < most)) continue;
      if (full) best.pop_back();
      best.emplace_back(found.seconds + sync, ClassPlan{s, found.seconds});
      std::stable_sort(best.begin(), best.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    std::vector<ClassPlan> out;
    out.reserve(best.size());
    for (const auto& [key, each] : best) out.push_back(each);
    return out;
  }

  std::span<const Tokens> lengths_;
  const Transformer& model_;
  const Device& device_;
  HotSpaOptions options_;
  LengthClasses classes_;
  std::vector<std::unique_ptr<HomogeneousStrategy>> strategies_;
  std::map<std::pair<std::size_t, std::size_t>, double> switches_;
  std::string reason_;
};

/// What all samples take at least if each runs in the phase that is fastest for it, switches included.
[[nodiscard]] inline double phases_bound(std::span<const Tokens> lengths, HotSpaSearch& search,
                                         std::span<const Phase> phases, bool& exists) {
  double sum = 0.0;
  for (SampleId id = 0; id < lengths.size(); ++id) {
    double least = std::numeric_limits<double>::infinity();
    for (const Phase& phase : phases) least = std::min(least, search.strategy(phase.strategy).seconds(id));
    sum += least;
  }
  exists = true;
  for (const Phase& phase : phases) {
    HomogeneousStrategy& own = search.strategy(phase.strategy);
    exists = exists && step_lower_bound(lengths, own.pipelines(), own.prices()).exists;
  }
  return sum;
}

/// Hands strategies to a search. @throws InvalidInput if one is not homogeneous.
inline void add_strategies(std::span<const Strategy> strategies, const Transformer& model,
                           const MakeKindModels& make, HotSpaSearch& search) {
  require(!strategies.empty(), "there are no strategies; expected at least one");
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    validate(strategies[i], model);
    require(strategies[i].kinds() == 1, "strategy ", i, " has ", strategies[i].kinds(),
            " kinds of pipelines; expected 1, as hotspa's strategies are homogeneous");
    search.add(strategies[i], make);
  }
}

/// `plan_hotspa` among given strategies.
[[nodiscard]] inline Plan search_hotspa(std::span<const Tokens> lengths, const Transformer& model,
                                        const Device& device, std::span<const Strategy> strategies,
                                        const MakeKindModels& make, const HotSpaOptions& options) {
  validate_batch(lengths);
  static_cast<void>(pack_context(lengths, options.context));
  require(options.most_classes > 0, "most_classes is 0; expected at least 1");
  require(options.thresholds > 0, "thresholds is 0; expected at least 1");
  require(options.rivals > 0, "rivals is 0; expected at least 1");
  HotSpaSearch search(lengths, model, device, options);
  add_strategies(strategies, model, make, search);
  const std::vector<Phase> phases = search();
  require(!phases.empty(), "a sample of ", *std::max_element(lengths.begin(), lengths.end()),
          " tokens fits none of ", strategies.size(),
          " homogeneous strategies; expected shorter samples, more devices or more memory",
          search.reason().empty() ? "" : concat(" (", search.reason(), ")"));
  std::vector<PipelineSpec> pipelines;
  std::vector<PlacedSchedule> placed;
  std::vector<double> switches;
  std::string text;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Phase& phase = phases[i];
    HomogeneousStrategy& own = search.strategy(phase.strategy);
    if (i > 0) switches.push_back(search.switch_seconds(phases[i - 1].strategy, phase.strategy));
    const std::vector<SampleId> ids = search.classes().samples(phase.begin, phase.end);
    const std::vector<Tokens> own_lengths = search.classes().lengths_of(ids);
    Scheduler scheduler(own_lengths, own.prices(), own.memory());
    WholeSamplePlan plan =
        search.plan(phase.strategy, scheduler, own_lengths, std::numeric_limits<double>::infinity());
    for (Schedule& schedule : plan.schedules) {
      auto peaks = scheduler.peak_bytes(schedule);
      rename_samples(ids, schedule);
      const auto p = static_cast<PipelineId>(placed.size());
      placed.push_back({{p}, std::move(schedule), std::move(peaks), i});
    }
    pipelines.insert(pipelines.end(), own.strategy().pipelines.begin(), own.strategy().pipelines.end());
    text += concat(i == 0 ? "" : ", then ", ids.size(), " samples of up to ",
                   search.classes().length(phase.end - 1), " tokens on ", own.pipelines(), " x (",
                   to_text(own.strategy().pipelines.front()), ")");
  }
  bool exists = true;
  const double least = phases_bound(lengths, search, phases, exists);
  const double all_switches = std::accumulate(switches.begin(), switches.end(), 0.0);
  Plan plan =
      assemble_plan("hotspa", lengths, model, device, strategy_of(std::move(pipelines)), std::move(placed),
                    search.strategy(phases.back().strategy).sync_seconds(), std::move(switches));
  state_lower_bound(exists ? least + all_switches : 0.0, exists, plan);
  plan.notes.push_back(concat("phases: ", text));
  const std::vector<std::string>& missing = search.strategy(phases.front().strategy).missing();
  plan.notes.insert(plan.notes.end(), missing.begin(), missing.end());
  return plan;
}

}  // namespace slimpack::detail
