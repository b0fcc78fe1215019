#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/partition/dispatch.hpp"
#include "slimpack/partition/dispatch_bound.hpp"
#include "slimpack/partition/kind_shares.hpp"
#include "slimpack/partition/sample_classes.hpp"
#include "slimpack/schedule/lower_bound.hpp"
#include "slimpack/strategy/sample_times.hpp"
#include "slimpack/strategy/strategy_models.hpp"
#include "slimpack/strategy/strategy_set.hpp"

namespace slimpack {

/// What plans on a strategy may do; each may do what those before it may.
enum class PlanFreedom : std::uint8_t {
  whole,      ///< samples are not cut, and nothing is recomputed: only pipelines that hold a sample so run it
  recompute,  ///< packs may recompute layers
  slices,     ///< samples may be cut
};

/// What no plan of a batch on a strategy of a `StrategySet` beats, and about what a plan takes.
class StrategyBounds {
 public:
  /// Both have to outlive this. O(samples log(samples)).
  StrategyBounds(std::span<const Tokens> lengths, const StrategySet& set)
      : lengths_(lengths), set_(set), times_(lengths, set), divided_(set.size()), estimate_(set.size()) {}

  /// What is known of the samples, for all strategies.
  [[nodiscard]] SampleTimes& times() { return times_; }

  /// Whether some of a strategy's pipelines hold the longest sample.
  [[nodiscard]] bool holds(std::size_t strategy, PlanFreedom freedom) const {
    return std::any_of(set_.kinds(strategy).begin(), set_.kinds(strategy).end(),
                       [&](std::size_t k) { return holds(k, times_.longest(), freedom); });
  }

  /// Seconds of samples that are divided among a strategy's pipelines where that is cheapest, without synchronisation.
  /// No plan takes less if parts of a sample cost no less than the whole. @pre holds(strategy).
  /// Found once. O(samples * kinds), and a linear program over classes of samples, whose prices prove it.
  [[nodiscard]] double divided(std::size_t strategy, PlanFreedom freedom) {
    freedom = least_freedom(strategy, freedom);
    double& known = divided_[strategy][static_cast<std::size_t>(freedom)];
    if (known == 0.0) known = find_divided(strategy, freedom);
    return known;
  }

  /// Seconds that no step on a strategy beats. @pre holds(strategy, freedom).
  [[nodiscard]] double operator()(std::size_t strategy, PlanFreedom freedom) {
    double chain = freedom == PlanFreedom::slices ? 0.0 : infinite;
    for (const std::size_t k : set_.kinds(strategy)) {
      if (holds(k, times_.longest(), freedom)) chain = std::min(chain, times_(k).longest_chain);
    }
    return std::max(divided(strategy, freedom), chain) + set_.sync_seconds(strategy);
  }

  /// About what a strategy's step takes: Eq. 3 with divisible samples, and T(l, P) of the mean of a class. Ranks strategies well.
  /// @pre holds(strategy, freedom), and samples are whole. Found once. O(classes * kinds) for each of some hundred steps.
  [[nodiscard]] double estimate(std::size_t strategy, PlanFreedom freedom) {
    freedom = least_freedom(strategy, freedom);
    double& known = estimate_[strategy][static_cast<std::size_t>(freedom)];
    if (known == 0.0) known = find_estimate(strategy, freedom);
    return known;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();
  static constexpr double tolerance = 3e-2;

  [[nodiscard]] bool holds(std::size_t k, Tokens length, PlanFreedom freedom) const {
    return freedom == PlanFreedom::slices ||
           length <= set_.pipelines()[k].most(freedom == PlanFreedom::recompute);
  }

  /// The least freedom with which the same pipelines hold the same samples.
  [[nodiscard]] PlanFreedom least_freedom(std::size_t strategy, PlanFreedom freedom) const {
    const auto all_hold = [&](std::size_t k) { return holds(k, times_.longest(), PlanFreedom::whole); };
    const std::span<const std::size_t> kinds = set_.kinds(strategy);
    return std::all_of(kinds.begin(), kinds.end(), all_hold) ? PlanFreedom::whole : freedom;
  }

  [[nodiscard]] double find_divided(std::size_t strategy, PlanFreedom freedom) {
    const std::span<const std::size_t> kinds = set_.kinds(strategy);
    const SampleClasses& classes = times_.classes();
    std::vector<double> load;
    load.reserve(kinds.size() * classes.size());
    for (const std::size_t k : kinds) {
      const std::vector<double>& own = times_(k).class_work;
      for (std::size_t c = 0; c < classes.size(); ++c)
        load.push_back(holds(k, classes.longest()[c], freedom) ? own[c] : infinite);
    }
    detail::KindShares shares(set_.counts(strategy));
    const double bound = shares.solve(load, classes.size(), infinite, tolerance).bound;
    if (classes.size() == lengths_.size()) return bound;
    cost_.assign(lengths_.size(), infinite);
    for (std::size_t n = 0; n < kinds.size(); ++n) {
      const double price = shares.price()[n];
      const std::vector<double>& work = times_(kinds[n]).work;
      for (std::size_t i = 0; i < cost_.size(); ++i) {
        if (holds(kinds[n], lengths_[i], freedom)) cost_[i] = std::min(cost_[i], price * work[i]);
      }
    }
    return std::accumulate(cost_.begin(), cost_.end(), 0.0);
  }

  [[nodiscard]] double find_estimate(std::size_t strategy, PlanFreedom freedom) {
    std::vector<double> seconds;
    std::vector<PipelineKind> kinds;
    for (std::size_t n = 0; n < set_.kinds(strategy).size(); ++n) {
      const std::size_t k = set_.kinds(strategy)[n];
      const std::vector<double>& own = times_(k).class_latency;
      seconds.insert(seconds.end(), own.begin(), own.end());
      kinds.push_back({.max_tokens = set_.pipelines()[k].most(freedom != PlanFreedom::whole),
                       .stages = set_.pipelines()[k].priced->memory.stages(),
                       .pipelines = static_cast<std::size_t>(set_.counts(strategy)[n])});
    }
    const SampleClasses& classes = times_.classes();
    const DispatchProblem problem{classes.longest(), kinds, seconds};
    return detail::DispatchBounds(problem, classes.count()).divisible(tolerance).seconds +
           set_.sync_seconds(strategy);
  }

  std::span<const Tokens> lengths_;
  const StrategySet& set_;
  SampleTimes times_;
  std::vector<std::array<double, 3>> divided_, estimate_;  // [strategy][freedom] 0: not found yet
  std::vector<double> cost_;                               // [sample] memory of `divided`
};

namespace detail {

/// Whether the prices of all kinds give a lower bound (`step_lower_bound`).
[[nodiscard]] inline bool parts_cost_no_less(std::span<const Tokens> lengths, StrategyModels& models) {
  for (std::size_t k = 0; k < models.kinds(); ++k) {
    if (!step_lower_bound(lengths, models.pipelines(k).size(), models.prices(k)).exists) return false;
  }
  return true;
}

}  // namespace detail

}  // namespace slimpack
