#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/partition/dispatch.hpp"
#include "slimpack/partition/kind_shares.hpp"

namespace slimpack {

/// What no dispatch can beat, and the prices of the kinds' seconds that prove it.
struct DispatchBound {
  double seconds = 0.0;  ///< no dispatch has a smaller makespan, up to rounding
  /// [kind] of a pipeline filled for all of these seconds: a sample is worth placing where its share of a
  /// pipeline costs least.
  std::vector<double> price = {};
};

namespace detail {

/// Of the T seconds that a pipeline has, a sample of t seconds takes at least t / (T - (PP - 1) t): the longest
/// sample of its pipeline, which is no shorter, takes (PP - 1) t from what all share. Infinite if T is too short
/// for the sample alone.
[[nodiscard]] inline double share_of_pipeline(double seconds, double other_stages, double makespan) {
  const double left = makespan - other_stages * seconds;
  return seconds <= left * (1.0 + 1e-12) ? (seconds > 0.0 ? std::min(seconds / left, 1.0) : 0.0)
                                         : std::numeric_limits<double>::infinity();
}

/// Makespans that are proven impossible. With a sample's least share of a pipeline, no pipeline has more than 1;
/// if even divisible samples need more of some kind than there is, no dispatch is that short. Shares may be
/// rounded by any function that keeps sums of 1 at most 1, as bounds for bin packing do (Fekete and Schepers):
/// x becomes floor((m + 1) x) / m, which is more for samples of which m fit and m + 1 do not.
class DispatchBounds {
 public:
  /// @param count of samples that each of the problem's stands for, for `divisible` alone; empty: one.
  explicit DispatchBounds(const DispatchProblem& problem, std::span<const double> count = {})
      : problem_(problem), count_(count), shares_(counts(problem)), share_(problem.seconds.size()) {
    single_ = longest_sample();
  }

  /// A bound with divisible samples, to within `tolerance`.
  [[nodiscard]] DispatchBound divisible(double tolerance) {
    if (single_ <= 0.0) return {single_, {shares_.price().begin(), shares_.price().end()}};
    double low = single_, high = single_;
    if (proves(low, 0)) {
      do {
        low = high;
        high *= 2.0;
      } while (proves(high, 0));
      low = search(low, high, 0, tolerance);
    }
    // The prices of the bound: those of the last proof may be of a lower makespan.
    static_cast<void>(proves(low, 0));
    return {low, {shares_.price().begin(), shares_.price().end()}};
  }

  /// Raises a bound as far as rounded shares allow, but not above the makespan of a dispatch.
  void raise(DispatchBound& bound, double makespan, double tolerance) {
    for (std::size_t most = 1; most <= most_rounding; ++most) {
      if (bound.seconds >= makespan * (1.0 - tolerance)) return;
      const double proven = bound.seconds * (1.0 + tolerance);
      if (!proves(proven, most)) continue;
      bound.seconds = search(proven, makespan, most, tolerance);
    }
  }

 private:
  static constexpr std::size_t most_rounding = 4;

  static std::vector<double> counts(const DispatchProblem& problem) {
    std::vector<double> bins;
    for (const PipelineKind& kind : problem.kinds) bins.push_back(static_cast<double>(kind.pipelines));
    return bins;
  }

  /// The sample that takes longest even alone, where it takes least.
  [[nodiscard]] double longest_sample() const {
    double most = 0.0;
    for (std::size_t i = 0; i < problem_.lengths.size(); ++i) {
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < problem_.kinds.size(); ++k) {
        if (problem_.holds(k, i))
          least = std::min(least, problem_.seconds_on(k, i) * (1.0 + problem_.other_stages(k)));
      }
      most = std::max(most, least);
    }
    return most;
  }

  /// Whether no dispatch has this makespan. Shares are rounded with m = `rounding`, or not at all if it is 0.
  [[nodiscard]] bool proves(double makespan, std::size_t rounding) {
    const std::size_t samples = problem_.lengths.size();
    const double m = static_cast<double>(rounding);
    for (std::size_t k = 0; k < problem_.kinds.size(); ++k) {
      for (std::size_t i = 0; i < samples; ++i) {
        double& share = share_[k * samples + i];
        share = problem_.holds(k, i)
                    ? share_of_pipeline(problem_.seconds_on(k, i), problem_.other_stages(k), makespan)
                    : std::numeric_limits<double>::infinity();
        if (!count_.empty()) share *= count_[i];
        // Less than the smallest share is lost, so that rounding errors prove nothing.
        if (rounding > 0 && share <= 1.0) share = std::max(std::floor((m + 1.0) * share - 1e-9), 0.0) / m;
      }
    }
    return shares_.solve(share_, samples, 1.0 + 1e-12, 1e-9).bound > 1.0 + 1e-12;
  }

  /// The largest makespan proven impossible between one that is and one that is not.
  [[nodiscard]] double search(double low, double high, std::size_t rounding, double tolerance) {
    while (high > low * (1.0 + tolerance)) {
      const double middle = low + (high - low) / 2.0;
      (proves(middle, rounding) ? low : high) = middle;
    }
    return low;
  }

  DispatchProblem problem_;
  std::span<const double> count_;
  KindShares shares_;
  std::vector<double> share_;  // [kind][sample]
  double single_ = 0.0;
};

}  // namespace detail

/// A lower bound on the makespan of every dispatch (Eq. 3): the sample that takes longest alone, and the linear
/// program in which samples are divisible, pipelines of a kind share their seconds, and each sample makes room
/// for itself on the other stages.
/// @throws InvalidInput if a sample fits no kind, or a number makes no sense. O(kinds samples) for each of some
/// hundred steps.
[[nodiscard]] inline DispatchBound dispatch_lower_bound(const DispatchProblem& problem,
                                                        double tolerance = 1e-4) {
  detail::check_problem(problem);
  require(tolerance > 0.0, "tolerance is ", tolerance, "; expected more than 0");
  return detail::DispatchBounds(problem).divisible(tolerance);
}

}  // namespace slimpack
