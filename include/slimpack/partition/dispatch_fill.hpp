#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/partition/dispatch.hpp"
#include "slimpack/partition/dispatch_bound.hpp"
#include "slimpack/partition/dispatch_greedy.hpp"
#include "slimpack/partition/longest_first.hpp"
#include "slimpack/partition/open_pipelines.hpp"

namespace slimpack::detail {

/// Pipelines filled one after another, longest samples first, up to a makespan that is searched for (MULTIFIT, by
/// Coffman, Garey and Johnson). So samples of like length share a pipeline, and few pipelines wait for long ones on
/// their other stages. Each sample asks first the kind whose seconds cost it least at the bound's prices.
class DispatchFill {
 public:
  DispatchFill(const DispatchProblem& problem, const DispatchBound& bound)
      : problem_(problem),
        first_(first_pipelines(problem)),
        open_(open_pipelines(problem)),
        order_(longest_first(problem.lengths)),
        pipeline_(problem.lengths.size()) {
    sort_kinds(bound);
  }

  /// The best filling found, each up to a target between the bound and the best before it.
  /// O(steps samples (kinds + log pipelines)) mostly.
  [[nodiscard]] std::vector<PipelineId> best(double bound, std::size_t steps) {
    double low = bound, high = fill(bound);
    std::vector<PipelineId> best = pipeline_;
    for (std::size_t step = 0; step < steps && high > low * (1.0 + 1e-4); ++step) {
      // Fillings fail by little: high targets teach less than low ones.
      const double target = low + (high - low) * (step == 0 ? 0.25 : 0.5);
      const double makespan = fill(target);
      if (makespan < high) {
        high = makespan;
        best = pipeline_;
      }
      if (makespan > target) low = target;
    }
    return best;
  }

 private:
  /// Fills up to `target`; what then fits nowhere goes where it takes least. @return the makespan.
  double fill(double target) {
    for (OpenPipelines& open : open_) open.clear();
    const std::size_t kinds = problem_.kinds.size();
    double makespan = 0.0;
    for (std::size_t at = 0; at < order_.size(); ++at) {
      const SampleId sample = order_[at];
      OpenPipelines::Place best;
      std::size_t kind = 0;
      for (std::size_t n = 0; n < kinds && best.seconds > target; ++n) {
        const std::size_t k = preferred_[sample * kinds + n];
        if (!problem_.holds(k, sample)) break;
        if (open_[k].find(problem_.seconds_on(k, sample), target, best)) kind = k;
      }
      makespan = std::max(makespan, open_[kind].put(best.pipeline, problem_.seconds_on(kind, sample)));
      pipeline_[sample] = static_cast<PipelineId>(first_[kind] + best.pipeline);
    }
    return makespan;
  }

  /// By the price of a sample's share of a pipeline; kinds that do not hold it come last.
  void sort_kinds(const DispatchBound& bound) {
    const std::size_t kinds = problem_.kinds.size(), samples = problem_.lengths.size();
    preferred_.resize(kinds * samples);
    std::vector<std::pair<double, std::uint32_t>> priced(kinds);
    for (std::size_t i = 0; i < samples; ++i) {
      for (std::uint32_t k = 0; k < kinds; ++k) {
        const double share = problem_.holds(k, i) ? share_of_pipeline(problem_.seconds_on(k, i),
                                                                      problem_.other_stages(k), bound.seconds)
                                                  : std::numeric_limits<double>::infinity();
        // What no longer fits alone, up to rounding, still comes before what does not hold it at all.
        priced[k] = {problem_.holds(k, i) ? std::min(share, 2.0) * bound.price[k] : share, k};
      }
      std::sort(priced.begin(), priced.end());
      for (std::size_t n = 0; n < kinds; ++n) preferred_[i * kinds + n] = priced[n].second;
    }
  }

  DispatchProblem problem_;
  std::vector<std::size_t> first_;   // [kind]
  std::vector<OpenPipelines> open_;  // [kind]
  std::vector<SampleId> order_;
  std::vector<std::uint32_t> preferred_;  // [sample][place], flat: kinds
  std::vector<PipelineId> pipeline_;
};

}  // namespace slimpack::detail
