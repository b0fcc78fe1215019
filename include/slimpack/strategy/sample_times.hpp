#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/partition/sample_classes.hpp"
#include "slimpack/strategy/strategy_set.hpp"

namespace slimpack {

/// Seconds that the samples of a batch take on pipelines of a kind, in both passes.
struct KindTimes {
  std::vector<double> work;           ///< [sample] on the busiest stage, without recomputation
  std::vector<double> latency;        ///< [sample] T(l, P), as `PipelineModels::latencies` gives it
  std::vector<double> class_work;     ///< [class] of all its samples
  std::vector<double> class_latency;  ///< [class] mean
  double longest_chain = 0.0;         ///< of the longest sample, one stage after another
};

/// What the samples of a batch take on the pipelines of a `StrategySet`. Pipelines that are alike are priced once.
class SampleTimes {
 public:
  /// Both have to outlive this. @pre there are samples. O(samples log(samples)).
  SampleTimes(std::span<const Tokens> lengths, const StrategySet& set)
      : lengths_(lengths), set_(set), classes_(lengths), times_(set.pipelines().size()) {}

  [[nodiscard]] const SampleClasses& classes() const { return classes_; }
  [[nodiscard]] Tokens longest() const { return classes_.longest().front(); }

  /// On some pipelines. @param k place in `StrategySet::pipelines`. Priced when they are first asked for, O(samples * stages).
  [[nodiscard]] const KindTimes& operator()(std::size_t k) {
    k = set_.alike(k);
    KindTimes& own = times_[k];
    if (own.work.empty()) price(set_.pipelines()[k], own);
    return own;
  }

  /// T(l, P) of all kinds of a strategy, [kind * samples + sample].
  [[nodiscard]] std::vector<double> latencies(std::size_t strategy) {
    std::vector<double> all;
    all.reserve(set_.kinds(strategy).size() * lengths_.size());
    for (const std::size_t k : set_.kinds(strategy)) {
      const std::vector<double>& own = (*this)(k).latency;
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

 private:
  void price(const PipelineModels& models, KindTimes& own) const {
    own.latency = models.latencies(lengths_, own.work);
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
      own.longest_chain += models.priced->prices.alone().pipeline_seconds(0, longest(), pass);
  }

  std::span<const Tokens> lengths_;
  const StrategySet& set_;
  SampleClasses classes_;
  std::vector<KindTimes> times_;  // [place in StrategySet::pipelines], of the first that are alike
};

}  // namespace slimpack
