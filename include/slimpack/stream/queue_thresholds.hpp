#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/stream/document.hpp"
#include "slimpack/stream/outlier_delay.hpp"

namespace slimpack {

struct QueueTuningOptions {
  double delay_budget = 0.5;    ///< iterations per token, on average
  std::size_t max_queues = 3;   ///< 0: no document waits
  std::size_t candidates = 16;  ///< lengths that may be thresholds
  /// Targets tried with `OutlierRelease::balanced`; if empty, only the given target.
  std::vector<double> targets = {1.0, 1.02, 1.05, 1.1, 1.15, 1.2};
};

/// The result of simulating the sample.
struct QueueTrial {
  std::vector<Tokens> thresholds = {};
  double target_imbalance = 1.0;
  double imbalance = 1.0;    ///< mean imbalance degree of the iterations
  double token_delay = 0.0;  ///< mean iterations per token
};

struct QueueTuning {
  OutlierDelayOptions options;          ///< those given, with the best thresholds (and target)
  QueueTrial best;                      ///< their result
  bool within_budget = false;           ///< false: no trial was, and `best` has the least delay
  std::vector<QueueTrial> trials = {};  ///< all of them, in the order tried: the curve of balance over delay
};

namespace detail {

/// Lengths at equal ratios, from the one whose workload is a quarter of a micro-batch's mean up to the
/// longest.
template <class Workload>
std::vector<Tokens> threshold_candidates(std::span<const Tokens> sample, std::size_t batches,
                                         std::size_t micro_batches, std::size_t count,
                                         const Workload& workload) {
  double total = 0.0;
  Tokens longest = 0;
  for (const Tokens length : sample) {
    total += workload(length);
    longest = std::max(longest, length);
  }
  const double quarter = total / static_cast<double>(4 * batches * micro_batches);
  Tokens low = 0, high = longest;
  while (high - low > 1) {
    const Tokens middle = low + (high - low) / 2;
    (workload(middle) < quarter ? low : high) = middle;
  }
  std::vector<Tokens> candidates;
  const double ratio = static_cast<double>(longest) / static_cast<double>(high);
  for (std::size_t k = 0; k < count; ++k) {
    const double share = static_cast<double>(k) / static_cast<double>(count);
    const auto length = static_cast<Tokens>(std::llround(static_cast<double>(high) * std::pow(ratio, share)));
    if (candidates.empty() || length > candidates.back()) candidates.push_back(length);
  }
  return candidates;
}

/// Simulates batches and keeps the best trial.
template <class Workload>
class QueueTuner {
 public:
  QueueTuner(std::span<const Tokens> sample, std::span<const std::size_t> batches, double budget,
             const OutlierDelayOptions& options, const Workload& workload)
      : batches_(batches), budget_(budget), workload_(workload), result_{options, {}} {
    for (std::size_t i = 0; i < sample.size(); ++i) documents_.push_back({i, sample[i]});
  }

  /// Whether this is better than all before.
  bool attempt(const std::vector<Tokens>& thresholds, double target) {
    OutlierDelayOptions options = result_.options;
    options.thresholds = thresholds;
    options.target_imbalance = target;
    OutlierDelayStream<Workload> stream(options, workload_);
    for (std::size_t b = 0; b + 1 < batches_.size(); ++b) {
      static_cast<void>(
          stream.push(std::span(documents_).subspan(batches_[b], batches_[b + 1] - batches_[b])));
    }
    QueueTrial trial{thresholds, target, stream.statistics().mean_imbalance()};
    static_cast<void>(
        stream.flush());  // documents that still wait count for the delay, but not for the balance
    trial.token_delay = stream.statistics().mean_token_delay();
    const bool first = result_.trials.empty();
    result_.trials.push_back(trial);
    if (!first && !better(trial)) return false;
    result_.best = std::move(trial);
    return true;
  }

  QueueTuning finish() {
    result_.within_budget = result_.best.token_delay <= budget_;
    result_.options.thresholds = result_.best.thresholds;
    result_.options.target_imbalance = result_.best.target_imbalance;
    return std::move(result_);
  }

  [[nodiscard]] const QueueTrial& best() const { return result_.best; }

 private:
  [[nodiscard]] bool better(const QueueTrial& trial) const {
    const QueueTrial& best = result_.best;
    const bool within = trial.token_delay <= budget_, best_within = best.token_delay <= budget_;
    if (within != best_within) return within;
    if (!within) return trial.token_delay < best.token_delay;
    return trial.imbalance < best.imbalance ||
           (trial.imbalance == best.imbalance && trial.token_delay < best.token_delay);
  }

  std::span<const std::size_t> batches_;
  double budget_;
  const Workload& workload_;
  std::vector<Document> documents_;
  QueueTuning result_;
};

/// Adds one threshold at a time, then replaces each threshold by every other candidate, as long as that
/// helps.
template <class Workload>
void tune_full_queues(QueueTuner<Workload>& tuner, std::span<const Tokens> candidates, std::size_t max_queues,
                      double target) {
  const auto with = [](std::vector<Tokens> thresholds, Tokens added) {
    thresholds.insert(std::upper_bound(thresholds.begin(), thresholds.end(), added), added);
    return thresholds;
  };
  const auto holds = [](const std::vector<Tokens>& thresholds, Tokens length) {
    return std::find(thresholds.begin(), thresholds.end(), length) != thresholds.end();
  };
  for (std::size_t queues = 1; queues <= max_queues; ++queues) {
    const std::vector<Tokens> before = tuner.best().thresholds;
    bool helped = false;
    for (const Tokens candidate : candidates) {
      if (!holds(before, candidate)) helped = tuner.attempt(with(before, candidate), target) || helped;
    }
    while (helped) {
      helped = false;
      for (std::size_t q = 0; q < tuner.best().thresholds.size(); ++q) {
        std::vector<Tokens> others = tuner.best().thresholds;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(q));
        for (const Tokens candidate : candidates) {
          if (!holds(tuner.best().thresholds, candidate))
            helped = tuner.attempt(with(others, candidate), target) || helped;
        }
      }
    }
  }
}

}  // namespace detail

/// Finds the number and thresholds of outlier queues by simulating a sample: the least mean imbalance degree
/// at a mean delay within the budget. With `OutlierRelease::full_queue`, queues are added one by one, and all
/// thresholds moved as long as that helps; with `balanced`, one queue is tried with every candidate and
/// target. The trials are a curve of balance over delay. The same input gives the same answer.
/// @param sample lengths of documents in data order, best of some hundred global batches. @param batches
/// where each global batch begins, then the end, as `global_batches` gives them. @param options all other
/// options; their thresholds are ignored. @param workload of a document by its tokens, increasing with them.
/// @throws InvalidInput if the sample or a batch is empty, or as OutlierDelayStream does.
/// Complexity: a simulation of the sample for each trial; about candidates * (1 + queues^2) of them, or
/// candidates * targets.
template <DocumentWorkload Workload>
[[nodiscard]] QueueTuning tune_queues(std::span<const Tokens> sample, std::span<const std::size_t> batches,
                                      const OutlierDelayOptions& options, Workload workload,
                                      const QueueTuningOptions& tuning = {}) {
  require(batches.size() >= 2 && batches.front() == 0 && batches.back() == sample.size(),
          "the batches do not cover the sample's ", sample.size(),
          " documents; expected where each of them begins, then the end");
  for (std::size_t b = 0; b + 1 < batches.size(); ++b) {
    require(batches[b] < batches[b + 1], "batch ", b, " begins at document ", batches[b], " and ends at ",
            batches[b + 1], "; expected at least one document");
  }
  require(tuning.delay_budget >= 0.0, "delay_budget is ", tuning.delay_budget, "; expected 0 or more");
  require(tuning.candidates >= 1, "candidates is 0; expected at least 1");
  detail::QueueTuner<Workload> tuner(sample, batches, tuning.delay_budget, options, workload);
  tuner.attempt({}, options.target_imbalance);
  const auto candidates = detail::threshold_candidates(sample, batches.size() - 1, options.micro_batches,
                                                       tuning.candidates, workload);
  if (options.release == OutlierRelease::full_queue) {
    detail::tune_full_queues(tuner, candidates, tuning.max_queues, options.target_imbalance);
  } else if (tuning.max_queues > 0) {
    const std::vector<double> given{options.target_imbalance};
    for (const Tokens candidate : candidates) {
      for (const double target : tuning.targets.empty() ? given : tuning.targets)
        tuner.attempt({candidate}, target);
    }
  }
  return tuner.finish();
}

}  // namespace slimpack
