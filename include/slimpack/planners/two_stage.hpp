#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/dispatch_search.hpp"
#include "slimpack/planners/hydraulis_options.hpp"
#include "slimpack/planners/pipeline_packs.hpp"
#include "slimpack/schedule/placed_schedule.hpp"
#include "slimpack/strategy/strategy_models.hpp"

namespace slimpack::detail {

/// A pipeline with its samples, in the two-stage assignment.
struct PipelineRun {
  std::size_t kind = 0;
  std::vector<SampleId> samples;
  Schedule schedule;  // empty without samples
  bool careful = false;

  [[nodiscard]] double seconds() const { return samples.empty() ? 0.0 : schedule.seconds; }
};

/// Hydraulis' two-stage assignment of a batch to one strategy: samples to pipelines, then each pipeline's samples to
/// packs. What the formulas leave open is decided by the simulation: orders of packs, and what the slowest pipeline
/// hands to others.
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
      runs[p].schedule = packer(runs[p])(runs[p].samples, max_tokens(runs[p]), far);
      if (runs[p].seconds() >= far) return {};
    }
    refine(runs);
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

  /// Makes the slowest pipeline faster, as long as that is possible: by its packs, and by exchanging samples with the
  /// fastest ones.
  void refine(std::vector<PipelineRun>& runs) {
    std::size_t careful = 0;
    for (std::size_t step = 0; step < options_.refinements; ++step) {
      std::vector<std::pair<double, std::size_t>> order;
      for (std::size_t p = 0; p < runs.size(); ++p) order.emplace_back(runs[p].seconds(), p);
      std::sort(order.begin(), order.end());
      PipelineRun& slowest = runs[order.back().second];
      if (!slowest.careful && careful < options_.most_careful) {
        ++careful;
        slowest.careful = true;
        Schedule found = packer(slowest).careful(slowest.samples, max_tokens(slowest), slowest.seconds());
        if (found.seconds < slowest.seconds()) slowest.schedule = std::move(found);
        continue;
      }
      bool better = false;
      for (std::size_t n = 0; !better && n < most_partners && n + 1 < order.size(); ++n)
        better = exchange(slowest, runs[order[n].second]);
      if (!better) return;
    }
  }

  /// Hands a sample of a pipeline to another one, perhaps for one in return, such that both would take about as long by T(l, P).
  /// @returns whether that makes both faster than the first was.
  bool exchange(PipelineRun& from, PipelineRun& to) {
    const double before = from.seconds(), wanted = (before - to.seconds()) / 2.0;
    struct {
      double off;
      SampleId given, back;
    } best{wanted, no_sample, no_sample};
    const auto look = [&](SampleId given, SampleId back) {
      if (lengths_[given] > max_tokens(to)) return;
      if (back != no_sample && lengths_[back] > max_tokens(from)) return;
      // What both change by, on the mean.
      double moved = packer(from).work({&given, 1}) + packer(to).work({&given, 1});
      if (back != no_sample) moved -= packer(from).work({&back, 1}) + packer(to).work({&back, 1});
      const double off = std::abs(moved / 2.0 - wanted);
      if (moved > 0.0 && off < best.off) best = {off, given, back};
    };
    for (const SampleId given : from.samples) {
      look(given, no_sample);
      for (const SampleId back : to.samples) look(given, back);
    }
    if (best.given == no_sample) return false;
    PipelineRun less{.kind = from.kind, .samples = from.samples, .schedule = {}},
        more{.kind = to.kind, .samples = to.samples, .schedule = {}};
    std::erase(less.samples, best.given);
    more.samples.push_back(best.given);
    if (best.back != no_sample) {
      std::erase(more.samples, best.back);
      less.samples.push_back(best.back);
    }
    for (PipelineRun* const run : {&less, &more}) {
      std::sort(run->samples.begin(), run->samples.end());
      if (run->samples.empty()) continue;
      run->schedule = packer(*run)(run->samples, max_tokens(*run), before);
      if (run->seconds() >= before) return false;
    }
    from = std::move(less);
    to = std::move(more);
    return true;
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
      auto peaks = packer(run).peak_bytes(run.schedule);
      out.placed.push_back({{pipeline.front()}, std::move(run.schedule), std::move(peaks)});
    }
    return out;
  }

  [[nodiscard]] PipelinePacker& packer(const PipelineRun& run) { return packers_[run.kind]; }

  /// Of a pack.
  [[nodiscard]] Tokens max_tokens(const PipelineRun& run) const { return kinds_[run.kind].max_tokens; }

  static constexpr SampleId no_sample = ~SampleId{0};
  /// Pipelines with which the slowest tries to exchange samples: the fastest ones.
  static constexpr std::size_t most_partners = 3;

  std::span<const Tokens> lengths_;
  StrategyModels& models_;
  std::span<const double> seconds_;  // [kind * samples + sample]
  const TwoStageOptions& options_;
  std::vector<PipelinePacker> packers_;  // [kind]
  std::vector<PipelineKind> kinds_;      // [kind]
};

}  // namespace slimpack::detail
