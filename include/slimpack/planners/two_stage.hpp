#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/dispatch_search.hpp"
#include "slimpack/planners/hydraulis_options.hpp"
#include "slimpack/planners/pipeline_packs.hpp"
#include "slimpack/planners/slowest_pipeline.hpp"
#include "slimpack/schedule/placed_schedule.hpp"
#include "slimpack/strategy/strategy_models.hpp"

namespace slimpack::detail {

/// Hydraulis' two-stage assignment of a batch to one strategy: samples to pipelines, then each pipeline's samples to
/// packs. What the formulas leave open is decided by the simulation: orders of packs, and what the slowest pipeline
/// hands to others (`SlowestPipelineImprover`).
/// Source: sections 6.1 and 6.2.
class TwoStageAssignment {
 public:
  /// @param seconds T(l, P), [kind * samples + sample]. All have to outlive this.
  TwoStageAssignment(std::span<const Tokens> lengths, StrategyModels& models, std::span<const double> seconds,
                     const TwoStageOptions& options)
      : lengths_(lengths), models_(models), seconds_(seconds), options_(options) {
    packers_.reserve(models.kinds());
    for (std::size_t k = 0; k < models.kinds(); ++k) {
      packers_.emplace_back(lengths, models, k, seconds.subspan(k * lengths.size(), lengths.size()), options);
      kinds_.push_back({.max_tokens = models.max_tokens(k, options.recompute),
                        .stages = models.memory(k).stages(),
                        .pipelines = models.pipelines(k).size()});
    }
  }

  /// The schedules of all pipelines, with packs as large as fit; without any if nothing fits.
  /// @param most gives up if that takes so long or longer. @pre a kind of pipelines holds the longest sample.
  [[nodiscard]] StrategySchedules operator()(double most) {
    std::vector<PipelineRun> runs = dispatch();
    // However the samples of a pipeline are packed, they take no less than their work.
    std::vector<std::pair<double, std::size_t>> by_work;
    for (std::size_t p = 0; p < runs.size(); ++p)
      by_work.emplace_back(packer(runs[p]).work(runs[p].samples), p);
    std::sort(by_work.rbegin(), by_work.rend());
    const double far = options_.refinements > 0 ? most * (1.0 + options_.close) : most;
    for (const auto& [work, p] : by_work) {
      if (runs[p].samples.empty()) continue;
      runs[p].schedule = packer(runs[p])(runs[p].samples, far);
      if (runs[p].seconds() >= far) return {};
    }
    SlowestPipelineImprover(lengths_, packers_, options_)(runs);
    return finish(runs, most);
  }

 private:
  /// The samples of each pipeline, kind after kind.
  [[nodiscard]] std::vector<PipelineRun> dispatch() const {
    const DispatchResult found =
        search_dispatch({.lengths = lengths_, .kinds = kinds_, .seconds = seconds_}, options_.dispatch);
    std::vector<PipelineRun> runs;
    for (std::size_t k = 0; k < kinds_.size(); ++k)
      runs.insert(runs.end(), kinds_[k].pipelines, PipelineRun{.kind = k, .samples = {}, .schedule = {}});
    for (SampleId i = 0; i < lengths_.size(); ++i) runs[found.dispatch.pipeline[i]].samples.push_back(i);
    return runs;
  }

  [[nodiscard]] StrategySchedules finish(std::vector<PipelineRun>& runs, double most) {
    StrategySchedules out;
    out.seconds = 0.0;
    for (const PipelineRun& run : runs) out.seconds = std::max(out.seconds, run.seconds());
    if (out.seconds >= most) return {};
    std::vector<std::size_t> next(models_.kinds(), 0);
    for (PipelineRun& run : runs) {
      const std::span<const PipelineId> pipeline = models_.pipelines(run.kind).subspan(next[run.kind]++, 1);
      if (run.samples.empty()) {
        out.placed.push_back(idle_schedule(models_.memory(run.kind), pipeline));
        continue;
      }
      out.placed.push_back({{pipeline.front()}, packer(run).with_peaks(std::move(run.schedule))});
    }
    return out;
  }

  [[nodiscard]] PipelinePacker& packer(const PipelineRun& run) { return packers_[run.kind]; }

  std::span<const Tokens> lengths_;
  StrategyModels& models_;
  std::span<const double> seconds_;  // [kind * samples + sample]
  const TwoStageOptions& options_;
  std::vector<PipelinePacker> packers_;  // [kind]
  std::vector<PipelineKind> kinds_;      // [kind]
};

}  // namespace slimpack::detail
