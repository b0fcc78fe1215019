#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/partition/dispatch.hpp"
#include "slimpack/partition/open_pipelines.hpp"

namespace slimpack {

struct GreedyDispatchOptions {
  std::size_t trials = 100;  ///< as in all of the paper's experiments; at least 1
  std::uint64_t seed = 0;    ///< of the random orders
};

namespace detail {

/// Empty pipelines of every kind.
[[nodiscard]] inline std::vector<OpenPipelines> open_pipelines(const DispatchProblem& problem) {
  std::vector<OpenPipelines> open;
  for (std::size_t k = 0; k < problem.kinds.size(); ++k)
    open.emplace_back(problem.kinds[k].pipelines, problem.other_stages(k));
  return open;
}

/// The same orders by every compiler and standard library.
inline void shuffle(std::mt19937_64& random, std::span<SampleId> order) {
  for (std::size_t n = order.size(); n > 1; --n)
    std::swap(order[n - 1], order[static_cast<std::size_t>(((random() >> 32) * n) >> 32)]);
}

/// One order after another, each sample to the pipeline that leaves the slowest one fastest.
class DispatchTrials {
 public:
  explicit DispatchTrials(const DispatchProblem& problem)
      : problem_(problem),
        first_(first_pipelines(problem)),
        open_(open_pipelines(problem)),
        kinds_(problem.kinds.size()),
        pipeline_(problem.lengths.size()) {
    std::iota(kinds_.begin(), kinds_.end(), std::size_t{0});
    std::stable_sort(kinds_.begin(), kinds_.end(), [&](std::size_t a, std::size_t b) {
      return problem.kinds[a].max_tokens > problem.kinds[b].max_tokens;
    });
  }

  /// Places the samples in this order. Gives up when the makespan reaches `allowed`.
  /// @return the makespan, or infinity. O(samples (kinds + log pipelines)) mostly.
  double run(std::span<const SampleId> order, double allowed) {
    for (OpenPipelines& open : open_) open.clear();
    double makespan = 0.0;
    for (const SampleId sample : order) {
      OpenPipelines::Place best;
      std::size_t kind = 0;
      for (const std::size_t k : kinds_) {
        // Kinds stand by falling MaxLen: the pipelines up to J_i.
        if (problem_.lengths[sample] > problem_.kinds[k].max_tokens || best.seconds <= makespan) break;
        if (open_[k].find(problem_.seconds_on(k, sample), makespan, best)) kind = k;
      }
      makespan = best.seconds;
      if (makespan >= allowed) return std::numeric_limits<double>::infinity();
      open_[kind].put(best.pipeline, problem_.seconds_on(kind, sample));
      pipeline_[sample] = static_cast<PipelineId>(first_[kind] + best.pipeline);
    }
    return makespan < allowed ? makespan : std::numeric_limits<double>::infinity();
  }

  /// [sample] of the last run.
  [[nodiscard]] const std::vector<PipelineId>& pipeline() const { return pipeline_; }

 private:
  DispatchProblem problem_;
  std::vector<std::size_t> first_;   // [kind]
  std::vector<OpenPipelines> open_;  // [kind]
  std::vector<std::size_t> kinds_;   // by falling MaxLen
  std::vector<PipelineId> pipeline_;
};

/// The best of the trials. The problem is valid. @returns nothing if all reach `allowed`.
[[nodiscard]] inline std::vector<PipelineId> best_trial(
    const DispatchProblem& problem, const GreedyDispatchOptions& options,
    double allowed = std::numeric_limits<double>::infinity()) {
  std::vector<SampleId> order(problem.lengths.size());
  std::iota(order.begin(), order.end(), SampleId{0});
  std::mt19937_64 random(options.seed);
  DispatchTrials trials(problem);
  std::vector<PipelineId> best;
  double least = allowed;
  for (std::size_t trial = 0; trial < options.trials; ++trial) {
    shuffle(random, order);
    const double makespan = trials.run(order, least);
    if (makespan >= least) continue;
    least = makespan;
    best = trials.pipeline();
  }
  return best;
}

}  // namespace detail

/// Hydraulis's dispatching: samples in random order, each to the first pipeline, by falling MaxLen, that leaves the
/// makespan least; the best of several orders. A trial ends early once it is no better than the best before it. More
/// trials with the same seed are never worse.
/// @throws InvalidInput if a sample fits no kind, a number makes no sense, or there is no trial.
/// Source: Hydraulis, Algorithm 1 and appendix D.2. O(trials samples (kinds + log pipelines)) mostly, where the paper
/// looks at all pipelines for each sample.
[[nodiscard]] inline Dispatch greedy_dispatch(const DispatchProblem& problem,
                                              const GreedyDispatchOptions& options = {}) {
  detail::check_problem(problem);
  require(options.trials >= 1, "0 trials; expected at least 1");
  return detail::dispatch_of(problem, detail::best_trial(problem, options));
}

}  // namespace slimpack
