#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/dispatch_search.hpp"
#include "slimpack/planners/best_of.hpp"
#include "slimpack/planners/slimpack_search.hpp"
#include "slimpack/schedule/full_pack.hpp"
#include "slimpack/schedule/placed_schedule.hpp"
#include "slimpack/strategy/strategy_models.hpp"

namespace slimpack {

namespace detail {

/// SlimPack inside a strategy of unequal pipelines: samples go to the kinds that suit them, and each kind's pipelines
/// cut, merge and order theirs as `plan_slimpack` does.
class SlicedStrategy {
 public:
  /// @param seconds T(l, P), [kind * samples + sample]. The others have to outlive this.
  SlicedStrategy(std::span<const Tokens> lengths, StrategyModels& models, std::vector<double> seconds,
                 const SlimPackOptions& options)
      : lengths_(lengths), models_(models), options_(options), seconds_(std::move(seconds)) {
    for (std::size_t k = 0; k < models.kinds(); ++k) {
      const std::size_t pipelines = models.pipelines(k).size();
      std::size_t largest = 1;
      for (std::size_t size = 2; size <= pipelines; ++size)
        largest = models.prices(k).allows(size) ? size : largest;
      const double most =
          std::min(most_sample_tokens(models.memory(k), true) * static_cast<double>(largest), 0x1p53);
      // What a kind's pipelines hold together, they share: one bin whose samples take a pipeline's part of their time.
      bins_.push_back({.max_tokens = static_cast<Tokens>(most)});
      for (std::size_t i = 0; i < lengths.size(); ++i)
        seconds_[k * lengths.size() + i] /= static_cast<double>(pipelines);
    }
  }

  /// Samples are shared among the kinds by their work. A kind whose plan takes longer than its work by more than the
  /// others' gets less in the next round. @param rounds at least 1. @returns no schedules if no kind holds the longest
  /// sample.
  [[nodiscard]] StrategySchedules operator()(std::size_t rounds) {
    StrategySchedules best;
    const Tokens longest = *std::max_element(lengths_.begin(), lengths_.end());
    if (std::none_of(bins_.begin(), bins_.end(),
                     [&](const PipelineKind& bin) { return bin.max_tokens >= longest; }))
      return best;
    std::vector<double> overhead(bins_.size(), 1.0);
    std::vector<PipelineId> before;
    for (std::size_t round = 0; round < rounds; ++round) {
      std::vector<PipelineId> kind = share(overhead);
      if (kind == before) break;
      improve(schedule(kind, overhead), best);
      before = std::move(kind);
    }
    return best;
  }

 private:
  /// The kind of each sample.
  [[nodiscard]] std::vector<PipelineId> share(std::span<const double> overhead) const {
    std::vector<double> seconds = seconds_;
    for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] *= overhead[i / lengths_.size()];
    return search_dispatch({.lengths = lengths_, .kinds = bins_, .seconds = seconds},
                           {.always_greedy = false})
        .dispatch.pipeline;
  }

  /// Schedules of all kinds. @param[out] overhead of each kind: its seconds over its work.
  [[nodiscard]] StrategySchedules schedule(std::span<const PipelineId> kind, std::span<double> overhead) {
    StrategySchedules out;
    out.seconds = 0.0;
    for (std::size_t k = 0; k < bins_.size(); ++k) {
      std::vector<SampleId> ids;
      double work = 0.0;
      for (SampleId i = 0; i < lengths_.size(); ++i) {
        if (kind[i] != k) continue;
        ids.push_back(i);
        work += seconds_[k * lengths_.size() + i];
      }
      const double seconds = schedule_kind(k, ids, out.placed);
      out.seconds = std::max(out.seconds, seconds);
      if (!ids.empty()) overhead[k] = seconds < infinite ? seconds / work : 2.0 * overhead[k];
    }
    if (out.seconds == infinite) out.placed.clear();
    return out;
  }

  /// Adds the schedules of a kind's pipelines. @returns the slowest one's seconds; infinite if nothing fits.
  double schedule_kind(std::size_t k, std::span<const SampleId> ids, std::vector<PlacedSchedule>& placed) {
    std::vector<Tokens> own;
    for (const SampleId id : ids) own.push_back(lengths_[id]);
    const std::span<const PipelineId> pipelines = models_.pipelines(k);
    if (own.empty()) {
      placed.push_back(idle_schedule(models_.memory(k), pipelines));
      return 0.0;
    }
    StrategySchedules found =
        best_schedules(own, pipelines.size(), models_.prices(k), models_.memory(k), options_);
    for (PlacedSchedule& each : found.placed) {
      for (PipelineId& p : each.pipelines) p = pipelines[p];
      rename_samples(ids, each.schedule);
      placed.push_back(std::move(each));
    }
    return found.seconds;
  }

  static constexpr double infinite = std::numeric_limits<double>::infinity();

  std::span<const Tokens> lengths_;
  StrategyModels& models_;
  const SlimPackOptions& options_;
  std::vector<double> seconds_;     // [kind * samples + sample] divided among the kind's pipelines
  std::vector<PipelineKind> bins_;  // [kind]
};

}  // namespace detail

}  // namespace slimpack
