#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/plan/plan.hpp"

namespace slimpack {

/// Figures by which plans are compared. d(k) is the duration of pack k: the sum of its seconds over the
/// stages.
struct PlanMetrics {
  /// Largest over pipelines of max d(k) / mean d(k), over the forward packs k that the pipeline runs.
  double max_over_mean_forward = 1.0;
  /// The same over the backward packs.
  double max_over_mean_backward = 1.0;
  /// max D(p) / mean D(p) over pipelines p of a phase, the worst phase's, where D(p) is the sum of d(k) over all packs
  /// that p runs in both passes.
  double replica_imbalance = 1.0;
  /// The same for the work on each pipeline's busiest stage, which sets its pace.
  double busiest_stage_imbalance = 1.0;
  /// Largest of `step.peak_bytes`: the most memory that any stage of any pipeline needs.
  double peak_bytes = 0.0;
  /// Number of forward packs; one that several pipelines run in lockstep counts once.
  std::size_t packs = 0;
  /// Tokens trained in this step: the sum over all samples but the deferred ones.
  Tokens tokens = 0;
};

namespace detail {

/// What each pipeline runs in one pass.
struct PackTotals {
  std::vector<double> sum, longest;  ///< seconds of its packs, over all stages
  std::vector<std::size_t> count;
};

/// @param[in,out] stages [pipeline * stages + stage] to which the packs' seconds are added; may be empty.
inline PackTotals pack_totals(const PassPlan& pass, std::size_t pipelines, std::span<double> stages = {}) {
  PackTotals totals{std::vector<double>(pipelines, 0.0), std::vector<double>(pipelines, 0.0),
                    std::vector<std::size_t>(pipelines, 0)};
  const std::size_t width = pipelines > 0 ? stages.size() / pipelines : 0;
  std::vector<double> row(width);
  for (std::size_t k = 0, next = 0; k < pass.packs.size(); k = next) {
    // Packs of the same pipelines mostly stand together.
    const std::span<const PipelineId> run_by = pass.pipelines[k];
    double sum = 0.0, longest = 0.0;
    std::fill(row.begin(), row.end(), 0.0);
    for (; next < pass.packs.size() && std::ranges::equal(pass.pipelines[next], run_by); ++next) {
      const std::span<const double> seconds = pass.seconds[next];
      const double duration = std::accumulate(seconds.begin(), seconds.end(), 0.0);
      sum += duration;
      longest = std::max(longest, duration);
      for (std::size_t s = 0; s < std::min(width, seconds.size()); ++s) row[s] += seconds[s];
    }
    for (const PipelineId p : run_by) {
      totals.sum[p] += sum;
      totals.longest[p] = std::max(totals.longest[p], longest);
      totals.count[p] += next - k;
      for (std::size_t s = 0; s < width; ++s) stages[p * width + s] += row[s];
    }
  }
  return totals;
}

inline double worst_max_over_mean(const PackTotals& totals) {
  double worst = 1.0;
  for (std::size_t p = 0; p < totals.sum.size(); ++p) {
    if (totals.count[p] == 0) continue;
    worst = std::max(worst, totals.longest[p] * static_cast<double>(totals.count[p]) / totals.sum[p]);
  }
  return worst;
}

/// Largest value over the mean; 1 if all are zero.
inline double max_over_mean(std::span<const double> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return sum > 0.0
             ? *std::max_element(values.begin(), values.end()) * static_cast<double>(values.size()) / sum
             : 1.0;
}

/// The worst `max_over_mean` of the pipelines of a phase. @param values [pipeline].
inline double worst_of_phases(const Plan& plan, std::span<const double> values) {
  std::vector<std::vector<double>> own(plan.phases());
  for (std::size_t p = 0; p < values.size(); ++p)
    own[plan.phases() == 1 ? 0 : static_cast<std::size_t>(plan.pipelines[p].phase)].push_back(values[p]);
  double worst = 1.0;
  for (const std::vector<double>& phase : own) {
    if (!phase.empty()) worst = std::max(worst, max_over_mean(phase));
  }
  return worst;
}

}  // namespace detail

/// Durations of the packs of one pass.
struct PackDurations {
  std::vector<double> seconds;  ///< of each pack on a stage, the mean over the stages
  /// Of each pack, relative to the mean pack of the pipeline that runs it; one value for each of its pipelines.
  std::vector<double> shares;
};

/// O(packs * stages). @param pipelines of the plan.
[[nodiscard]] inline PackDurations pack_durations(const PassPlan& pass, std::size_t pipelines) {
  const detail::PackTotals totals = detail::pack_totals(pass, pipelines);
  PackDurations durations;
  for (std::size_t k = 0; k < pass.packs.size(); ++k) {
    const auto stages = pass.seconds[k];
    const double sum = std::accumulate(stages.begin(), stages.end(), 0.0);
    durations.seconds.push_back(sum / static_cast<double>(std::max<std::size_t>(1, stages.size())));
    for (const PipelineId p : pass.pipelines[k]) {
      if (totals.sum[p] > 0)
        durations.shares.push_back(sum * static_cast<double>(totals.count[p]) / totals.sum[p]);
    }
  }
  return durations;
}

/// Metrics of a valid plan. O(packs * stages).
[[nodiscard]] inline PlanMetrics plan_metrics(const Plan& plan) {
  const std::size_t pipelines = plan.pipelines.size();
  std::size_t width = 1;
  for (const PipelinePlan& pipeline : plan.pipelines) width = std::max(width, pipeline.stages());
  std::vector<double> stages(pipelines * width, 0.0);
  const auto forward = detail::pack_totals(plan.forward, pipelines, stages);
  const auto backward = detail::pack_totals(plan.backward, pipelines, stages);
  PlanMetrics metrics;
  metrics.max_over_mean_forward = detail::worst_max_over_mean(forward);
  metrics.max_over_mean_backward = detail::worst_max_over_mean(backward);
  std::vector<double> totals = forward.sum;
  for (std::size_t p = 0; p < totals.size(); ++p) totals[p] += backward.sum[p];
  metrics.replica_imbalance = detail::worst_of_phases(plan, totals);
  std::vector<double> busiest;
  for (auto row = stages.begin(); row != stages.end(); row += static_cast<std::ptrdiff_t>(width))
    busiest.push_back(*std::max_element(row, row + static_cast<std::ptrdiff_t>(width)));
  metrics.busiest_stage_imbalance = detail::worst_of_phases(plan, busiest);
  for (const auto& row : plan.step.peak_bytes) {
    for (const double bytes : row) metrics.peak_bytes = std::max(metrics.peak_bytes, bytes);
  }
  metrics.packs = plan.forward.packs.size();
  metrics.tokens = std::accumulate(plan.tokens.begin(), plan.tokens.end(), Tokens{0});
  for (const SampleId id : plan.deferred) metrics.tokens -= plan.tokens[id];
  return metrics;
}

}  // namespace slimpack
