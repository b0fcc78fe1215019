#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/partition/dispatch.hpp"
#include "slimpack/partition/dispatch_bound.hpp"
#include "slimpack/partition/kind_shares.hpp"
#include "slimpack/strategy/strategy_set.hpp"

namespace slimpack {

/// What plans on a strategy may do; each may do what those before it may.
enum class PlanFreedom : std::uint8_t {
  whole,      ///< samples are not cut, and nothing is recomputed: only pipelines that hold a sample so run it
  recompute,  ///< packs may recompute layers
  slices,     ///< samples may be cut
};

/// Classes of samples of about the same length. The longest samples are classes of their own.
class SampleClasses {
 public:
  /// O(samples log(samples)).
  explicit SampleClasses(std::span<const Tokens> lengths)
      : by_length_(detail::longest_samples_first(lengths)) {
    const std::size_t own = lengths.size() <= alone + together ? lengths.size() : alone;
    for (std::size_t i = 0; i <= own; ++i) begin_.push_back(i);
    const std::size_t rest = lengths.size() - own;
    for (std::size_t c = 1; rest > 0 && c <= together; ++c) begin_.push_back(own + rest * c / together);
    for (std::size_t c = 0; c < size(); ++c) {
      longest_.push_back(lengths[of(c).front()]);
      count_.push_back(static_cast<double>(of(c).size()));
    }
  }

  [[nodiscard]] std::size_t size() const { return begin_.size() - 1; }
  /// The samples of a class, longest first.
  [[nodiscard]] std::span<const SampleId> of(std::size_t c) const {
    return std::span(by_length_).subspan(begin_[c], begin_[c + 1] - begin_[c]);
  }
  [[nodiscard]] const std::vector<Tokens>& longest() const { return longest_; }  ///< [class]
  [[nodiscard]] const std::vector<double>& count() const { return count_; }      ///< [class] samples

 private:
  static constexpr std::size_t alone = 64, together = 64;

  std::vector<SampleId> by_length_;
  std::vector<std::size_t> begin_;  // [class] in by_length_, and their end
  std::vector<Tokens> longest_;     // [class]
  std::vector<double> count_;       // [class]
};

/// What the samples of a batch take on the pipelines of a `StrategySet`, each priced once, and what no plan on a strategy beats.
class StrategyBounds {
 public:
  /// Both have to outlive this. O(samples log(samples)).
  StrategyBounds(std::span<const Tokens> lengths, const StrategySet& set)
      : lengths_(lengths),
        set_(set),
        longest_(*std::max_element(lengths.begin(), lengths.end())),
        classes_(lengths),
        prices_(set.pipelines().size()),
        divided_(set.size()),
        estimate_(set.size()) {}

  /// T(l, P) of all kinds of a strategy, [kind * samples + sample] (`PipelineModels::latencies`). Pipelines that are
  /// alike are priced once.
  [[nodiscard]] std::vector<double> latencies(std::size_t strategy) {
    std::vector<double> all;
    all.reserve(set_.kinds(strategy).size() * lengths_.size());
    for (const std::size_t k : set_.kinds(strategy)) {
      const std::vector<double>& own = prices_of(k).latency;
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  /// Whether some of a strategy's pipelines hold the longest sample.
  [[nodiscard]] bool holds(std::size_t strategy, PlanFreedom freedom) const {
    return std::any_of(set_.kinds(strategy).begin(), set_.kinds(strategy).end(),
                       [&](std::size_t k) { return holds(k, longest_, freedom); });
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
      if (holds(k, longest_, freedom)) chain = std::min(chain, prices_of(k).longest_chain);
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
  struct KindPrices {
    std::vector<double> work;           // [sample]
    std::vector<double> latency;        // [sample]
    std::vector<double> class_work;     // [class] of all its samples
    std::vector<double> class_latency;  // [class] mean
    double longest_chain = 0.0;         // of the longest sample, one stage after another in both passes
  };
  static constexpr double infinite = std::numeric_limits<double>::infinity();
  static constexpr double tolerance = 3e-2;

  [[nodiscard]] bool holds(std::size_t k, Tokens length, PlanFreedom freedom) const {
    return freedom == PlanFreedom::slices ||
           length <= set_.pipelines()[k].most(freedom == PlanFreedom::recompute);
  }

  /// The least freedom with which the same pipelines hold the same samples.
  [[nodiscard]] PlanFreedom least_freedom(std::size_t strategy, PlanFreedom freedom) const {
    const auto all_hold = [&](std::size_t k) { return holds(k, longest_, PlanFreedom::whole); };
    const std::span<const std::size_t> kinds = set_.kinds(strategy);
    return std::all_of(kinds.begin(), kinds.end(), all_hold) ? PlanFreedom::whole : freedom;
  }

  [[nodiscard]] double find_divided(std::size_t strategy, PlanFreedom freedom) {
    const std::span<const std::size_t> kinds = set_.kinds(strategy);
    std::vector<double> load;
    load.reserve(kinds.size() * classes_.size());
    for (const std::size_t k : kinds) {
      const std::vector<double>& own = prices_of(k).class_work;
      for (std::size_t c = 0; c < classes_.size(); ++c)
        load.push_back(holds(k, classes_.longest()[c], freedom) ? own[c] : infinite);
    }
    detail::KindShares shares(set_.counts(strategy));
    const double bound = shares.solve(load, classes_.size(), infinite, tolerance).bound;
    if (classes_.size() == lengths_.size()) return bound;
    cost_.assign(lengths_.size(), infinite);
    for (std::size_t n = 0; n < kinds.size(); ++n) {
      const double price = shares.price()[n];
      const std::vector<double>& work = prices_of(kinds[n]).work;
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
      const std::vector<double>& own = prices_of(k).class_latency;
      seconds.insert(seconds.end(), own.begin(), own.end());
      kinds.push_back({.max_tokens = set_.pipelines()[k].most(freedom != PlanFreedom::whole),
                       .stages = set_.pipelines()[k].priced->memory.stages(),
                       .pipelines = static_cast<std::size_t>(set_.counts(strategy)[n])});
    }
    const DispatchProblem problem{classes_.longest(), kinds, seconds};
    return detail::DispatchBounds(problem, classes_.count()).divisible(tolerance).seconds +
           set_.sync_seconds(strategy);
  }

  KindPrices& prices_of(std::size_t k) {
    k = set_.alike(k);
    KindPrices& own = prices_[k];
    if (!own.work.empty()) return own;
    PricedModels& models = *set_.pipelines()[k].priced;
    own.latency = set_.pipelines()[k].latencies(lengths_, own.work);
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      double work = 0.0, latency = 0.0;
      for (const SampleId i : classes_.of(c)) {
        work += own.work[i];
        latency += own.latency[i];
      }
      own.class_work.push_back(work);
      own.class_latency.push_back(latency / classes_.count()[c]);
    }
    for (const Pass pass : {Pass::forward, Pass::backward})
      own.longest_chain += models.prices.alone().pipeline_seconds(0, longest_, pass);
    return own;
  }

  std::span<const Tokens> lengths_;
  const StrategySet& set_;
  Tokens longest_;
  SampleClasses classes_;
  std::vector<KindPrices> prices_;  // [place in StrategySet::pipelines], of the first that are alike
  std::vector<std::array<double, 3>> divided_, estimate_;  // [strategy][freedom] 0: not found yet
  std::vector<double> cost_;                               // [sample] memory of `divided`
};

}  // namespace slimpack
