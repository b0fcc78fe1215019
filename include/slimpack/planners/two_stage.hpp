#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/dispatch_search.hpp"
#include "slimpack/partition/pack_pipeline.hpp"
#include "slimpack/planners/hydraulis_options.hpp"
#include "slimpack/planners/strategy_models.hpp"
#include "slimpack/schedule/full_pack.hpp"
#include "slimpack/schedule/pack_orders.hpp"
#include "slimpack/schedule/scheduler.hpp"

namespace slimpack::detail {

/// Hydraulis' two-stage assignment of a batch to one strategy: samples to pipelines, then each pipeline's samples to packs.
/// Source: sections 6.1 and 6.2.
class TwoStageAssignment {
 public:
  /// @param models, lengths, options have to outlive this.
  TwoStageAssignment(std::span<const Tokens> lengths, StrategyModels& models, const TwoStageOptions& options)
      : lengths_(lengths), models_(models), options_(options), seconds_(sample_seconds(models, lengths)) {}

  /// The schedules of all pipelines; without any if nothing fits. With recomputation, packs are as large as fit without any, or as fit
  /// with it, whichever is faster. @param most gives up if that takes so long or longer.
  [[nodiscard]] StrategySchedules operator()(double most) {
    StrategySchedules best;
    for (const bool recompute : {false, true}) {
      if (recompute && !options_.recompute) continue;
      StrategySchedules found = assign(recompute, std::min(most, best.seconds));
      if (found.seconds < best.seconds) best = std::move(found);
    }
    return best;
  }

 private:
  /// Both stages, with packs of up to MaxLen(P).
  [[nodiscard]] StrategySchedules assign(bool recompute, double most) {
    const std::vector<PipelineKind> kinds = kinds_with(recompute);
    if (!some_kind_holds(kinds)) return {};
    const DispatchResult dispatched =
        search_dispatch({.lengths = lengths_, .kinds = kinds, .seconds = seconds_}, options_.dispatch);
    StrategySchedules out;
    out.seconds = 0.0;
    std::size_t next =
        0;  // number of a pipeline among those dispatched to, which are numbered kind after kind
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      Scheduler scheduler(lengths_, models_.prices(k), models_.memory(k));
      std::vector<std::vector<SampleId>> samples(kinds[k].pipelines);
      for (SampleId i = 0; i < lengths_.size(); ++i) {
        const std::size_t own = dispatched.dispatch.pipeline[i] - next;
        if (dispatched.dispatch.pipeline[i] >= next && own < samples.size()) samples[own].push_back(i);
      }
      for (std::size_t p = 0; p < samples.size(); ++p) {
        if (samples[p].empty()) {
          out.placed.push_back(idle_schedule(models_.memory(k), models_.pipelines(k).subspan(p, 1)));
          continue;
        }
        Schedule schedule = pack(k, samples[p], kinds[k], scheduler);
        out.seconds = std::max(out.seconds, schedule.seconds);
        if (out.seconds >= most) return {};
        auto peaks = scheduler.peak_bytes(schedule);
        out.placed.push_back({{models_.pipelines(k)[p]}, std::move(schedule), std::move(peaks)});
      }
      next += kinds[k].pipelines;
    }
    return out;
  }

  [[nodiscard]] std::vector<PipelineKind> kinds_with(bool recompute) const {
    std::vector<PipelineKind> kinds;
    for (std::size_t k = 0; k < models_.kinds(); ++k) {
      const Memory& memory = models_.memory(k);
      const std::int32_t layers = recompute ? std::numeric_limits<std::int32_t>::max() : 0;
      kinds.push_back({.max_tokens = largest_full_pack(memory, layers),
                       .stages = memory.stages(),
                       .pipelines = models_.pipelines(k).size()});
    }
    return kinds;
  }

  [[nodiscard]] bool some_kind_holds(std::span<const PipelineKind> kinds) const {
    const Tokens longest = *std::max_element(lengths_.begin(), lengths_.end());
    return std::any_of(kinds.begin(), kinds.end(),
                       [&](const PipelineKind& kind) { return kind.max_tokens >= longest; });
  }

  /// The fastest schedule of a pipeline's samples, of the numbers of packs that Eq. 1 likes best.
  [[nodiscard]] Schedule pack(std::size_t k, std::span<const SampleId> samples, const PipelineKind& kind,
                              Scheduler& scheduler) const {
    std::vector<double> seconds;
    std::vector<Tokens> tokens;
    for (const SampleId id : samples) {
      seconds.push_back(seconds_[k * lengths_.size() + id]);
      tokens.push_back(lengths_[id]);
    }
    const Prices& prices = models_.prices(k).alone();
    double constant = 0.0;
    for (std::size_t s = 0; s < kind.stages; ++s)
      constant =
          std::max(constant, prices.pack_seconds(s, Pass::forward) + prices.pack_seconds(s, Pass::backward));
    const PipelinePacking packing = pack_pipeline(seconds, tokens, kind, constant, options_.packing);
    Schedule best;
    if (packing.pack.empty()) return best;
    std::vector<Packs> packs(1);
    for (std::size_t v = 0; v < packing.packs; ++v) {
      for (std::size_t i = 0; i < samples.size(); ++i) {
        if (packing.pack[i] == v) packs[0].add({samples[i], 0, tokens[i]});
      }
      packs[0].close();
    }
    const ScheduleOptions fit{.fit = FitPolicy::recompute, .each_pack = options_.recompute};
    best.pipelines = 1;
    best.forward = best.backward = in_rows(std::move(packs[0]));
    scheduler(best, fit);
    if (best.fits() && kind.stages > 1) shorten_by_order(best, fit, scheduler);
    return best;
  }

  std::span<const Tokens> lengths_;
  StrategyModels& models_;
  const TwoStageOptions& options_;
  std::vector<double> seconds_;  // [kind * samples + sample]
};

}  // namespace slimpack::detail
