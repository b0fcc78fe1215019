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
#include "slimpack/core/solve.hpp"
#include "slimpack/partition/dispatch.hpp"
#include "slimpack/partition/dispatch_bound.hpp"
#include "slimpack/partition/dispatch_exchange.hpp"
#include "slimpack/partition/dispatch_fill.hpp"
#include "slimpack/partition/dispatch_greedy.hpp"
#include "slimpack/partition/dispatch_loads.hpp"

namespace slimpack {

struct DispatchOptions {
  GreedyDispatchOptions greedy = {};  ///< where the search starts
  double gap = 1e-3;  ///< the search ends when the makespan is at most 1 + gap times the bound
  /// Exchanges looked at, some nanoseconds each: so many, and so many for every sample.
  std::uint64_t max_steps = 200000;
  std::uint64_t max_steps_per_sample = 1000;
  /// The trials are made even where pipelines that are filled in order are within the gap, so that the answer is never
  /// worse than they are. If false, it may be worse by the gap.
  bool always_greedy = true;
};

/// A dispatch and what is known about the least makespan.
struct DispatchResult {
  SolveStatus status = SolveStatus::feasible;  ///< `optimal` if the makespan is the bound
  Dispatch dispatch = {};
  double bound = 0.0;  ///< no dispatch is below, up to rounding
  [[nodiscard]] double gap() const {
    const double makespan = dispatch.makespan();
    return makespan <= bound
               ? 0.0
               : (bound > 0.0 ? makespan / bound - 1.0 : std::numeric_limits<double>::infinity());
  }
};

namespace detail {

class DispatchSearch {
 public:
  DispatchSearch(const DispatchProblem& problem, const DispatchOptions& options)
      : problem_(problem),
        options_(options),
        most_steps_(options.max_steps + options.max_steps_per_sample * problem.lengths.size()),
        random_(options.greedy.seed) {}

  DispatchResult run() {
    DispatchResult result;
    DispatchBounds bounds(problem_);
    DispatchBound bound = bounds.divisible(1e-4);
    enough_ = bound.seconds * (1.0 + options_.gap);
    offer(DispatchFill(problem_, bound).best(bound.seconds, fill_steps));
    if (best_.makespan() > enough_) {
      const std::vector<PipelineId> filled = best_.pipeline,
                                    greedy = best_trial(problem_, options_.greedy, best_.makespan());
      improve(greedy.empty() ? filled : greedy);
      if (best_.makespan() > enough_ && !greedy.empty()) improve(filled);
      if (best_.makespan() > enough_) {
        bounds.raise(bound, best_.makespan(), 1e-3);
        enough_ = bound.seconds * (1.0 + options_.gap);
      }
      rebuild();
    } else if (options_.always_greedy && best_.makespan() > bound.seconds) {
      std::vector<PipelineId> greedy = best_trial(problem_, options_.greedy, best_.makespan());
      if (!greedy.empty()) offer(std::move(greedy));
    }
    result.dispatch = std::move(best_);
    result.bound = std::min(bound.seconds, result.dispatch.makespan());
    if (result.gap() == 0.0) result.status = SolveStatus::optimal;
    return result;
  }

 private:
  static constexpr std::size_t fill_steps = 8;
  /// Pipelines that are emptied and filled again at a time.
  static constexpr std::size_t most_rebuilt = 4;

  void offer(std::vector<PipelineId> pipeline) {
    Dispatch found = dispatch_of(problem_, std::move(pipeline));
    if (best_.pipeline.empty() || found.makespan() < best_.makespan()) best_ = std::move(found);
  }

  /// Exchanges from a start until none helps.
  void improve(const std::vector<PipelineId>& start) {
    DispatchLoads loads(problem_, start);
    DispatchExchange exchange(loads);
    std::vector<std::size_t> all(loads.pipelines());
    std::iota(all.begin(), all.end(), std::size_t{0});
    exchange.improve(all, enough_, true, most_steps_ / 4);
    offer(loads.pipeline_of_samples());
  }

  /// Empties the slowest pipeline and a few others, deals their samples again and exchanges; keeps a result that is no slower.
  void rebuild() {
    if (best_.makespan() <= enough_ || best_.seconds.size() < 2) return;
    DispatchLoads loads(problem_, best_.pipeline);
    DispatchExchange exchange(loads);
    while (exchange.steps() + rebuilt_ < most_steps_) {
      const std::vector<std::size_t> chosen = choose(loads);
      const double before = loads.load(chosen.front());
      if (before <= enough_) break;
      std::vector<std::vector<SampleId>> kept;
      kept.reserve(chosen.size());
      for (const std::size_t p : chosen) kept.push_back(loads.items(p));
      deal(loads, chosen);
      exchange.improve(chosen, enough_, true, most_steps_);
      double after = 0.0;
      for (const std::size_t p : chosen) after = std::max(after, loads.load(p));
      if (after <= before) continue;
      for (std::size_t n = 0; n < chosen.size(); ++n) loads.set(chosen[n], std::move(kept[n]));
    }
    offer(loads.pipeline_of_samples());
  }

  [[nodiscard]] std::size_t below(std::size_t n) {
    return static_cast<std::size_t>(((random_() >> 32) * n) >> 32);
  }

  /// The slowest pipeline and a few others.
  std::vector<std::size_t> choose(const DispatchLoads& loads) {
    std::size_t slowest = 0;
    for (std::size_t p = 1; p < loads.pipelines(); ++p)
      slowest = loads.load(p) > loads.load(slowest) ? p : slowest;
    std::vector<std::size_t> chosen{slowest};
    const std::size_t wanted = std::min(loads.pipelines(), 2 + below(most_rebuilt - 1));
    while (chosen.size() < wanted) {
      const std::size_t p = below(loads.pipelines());
      if (std::find(chosen.begin(), chosen.end(), p) == chosen.end()) chosen.push_back(p);
    }
    rebuilt_ += loads.pipelines();
    return chosen;
  }

  /// Their samples, about by falling length, each to the one of them that then takes least.
  void deal(DispatchLoads& loads, const std::vector<std::size_t>& chosen) {
    std::vector<std::pair<double, SampleId>> pool;
    for (const std::size_t p : chosen) {
      for (const SampleId i : loads.items(p)) {
        const double noise = 0.7 + 0.6 * static_cast<double>(random_() >> 40) / 16777216.0;
        pool.emplace_back(-noise * static_cast<double>(problem_.lengths[i]), i);
      }
    }
    std::sort(pool.begin(), pool.end());
    std::vector<std::vector<SampleId>> dealt(chosen.size());
    std::vector<double> sum(chosen.size(), 0.0), most(chosen.size(), 0.0);
    for (const auto& [key, i] : pool) {
      std::size_t to = chosen.size();
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t n = 0; n < chosen.size(); ++n) {
        const std::size_t k = loads.kind(chosen[n]);
        if (!problem_.holds(k, i)) continue;
        const double s = problem_.seconds_on(k, i);
        const double after = sum[n] + s + std::max(most[n], s) * problem_.other_stages(k);
        if (after >= least) continue;
        least = after;
        to = n;
      }
      const double s = problem_.seconds_on(loads.kind(chosen[to]), i);
      sum[to] += s;
      most[to] = std::max(most[to], s);
      dealt[to].push_back(i);
    }
    rebuilt_ += pool.size() * chosen.size();
    for (std::size_t n = 0; n < chosen.size(); ++n) loads.set(chosen[n], std::move(dealt[n]));
  }

  DispatchProblem problem_;
  const DispatchOptions& options_;
  std::uint64_t most_steps_;
  std::mt19937_64 random_;
  Dispatch best_;
  double enough_ = 0.0;
  std::uint64_t rebuilt_ = 0;  // steps of dealing
};

}  // namespace detail

/// Samples on pipelines of different kinds so that the slowest is fast by Eq. 2, with a proven gap: the best of
/// Algorithm 1's trials and of pipelines filled by falling length, then exchanges of up to two samples for up to two,
/// then a few pipelines at a time dealt again. Never slower than `greedy_dispatch` with the same trials,
/// unless `always_greedy` is false.
/// @throws InvalidInput if a sample fits no kind, a number makes no sense, there is no trial, or the gap is negative.
/// Source of the problem: Hydraulis, Eq. 3. O(trials samples (kinds + log pipelines)) mostly, and the steps.
[[nodiscard]] inline DispatchResult search_dispatch(const DispatchProblem& problem,
                                                    const DispatchOptions& options = {}) {
  detail::check_problem(problem);
  require(options.greedy.trials >= 1, "0 trials; expected at least 1");
  require(options.gap >= 0.0, "gap is ", options.gap, "; expected 0 or more");
  return detail::DispatchSearch(problem, options).run();
}

}  // namespace slimpack
