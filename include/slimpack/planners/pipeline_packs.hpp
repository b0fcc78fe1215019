#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/handover.hpp"
#include "slimpack/partition/pack_pipeline.hpp"
#include "slimpack/planners/best_of.hpp"
#include "slimpack/planners/hydraulis_options.hpp"
#include "slimpack/schedule/pack_orders.hpp"
#include "slimpack/schedule/scheduler.hpp"
#include "slimpack/strategy/strategy_models.hpp"

namespace slimpack::detail {

/// A pipeline with its samples.
struct PipelineRun {
  std::size_t kind = 0;           ///< of the strategy
  std::vector<SampleId> samples;  ///< ascending
  Schedule schedule;              ///< empty without samples
  bool careful = false;           ///< whether `PipelinePacker::careful` has packed them

  [[nodiscard]] double seconds() const { return samples.empty() ? 0.0 : schedule.seconds; }
};

/// Packs and schedules the samples of one pipeline of a kind (Eq. 1, and the simulation).
class PipelinePacker {
 public:
  /// @param seconds T(l, P), [sample]. All have to outlive this.
  PipelinePacker(std::span<const Tokens> lengths, StrategyModels& models, std::size_t kind,
                 std::span<const double> seconds, const TwoStageOptions& options)
      : lengths_(lengths),
        seconds_(seconds),
        options_(options),
        max_tokens_(models.max_tokens(kind, options.recompute)),
        stages_(models.memory(kind).stages()),
        useful_tokens_(models.useful_tokens(kind)),
        scheduler_(lengths, models.prices(kind), models.memory(kind)) {
    const Prices& prices = models.prices(kind).alone();
    for (std::size_t s = 0; s < stages_; ++s) {
      const double both = prices.pack_seconds(s, Pass::forward) + prices.pack_seconds(s, Pass::backward);
      constant_ = std::max(constant_, both);
    }
  }

  /// T(l, P) of samples together.
  [[nodiscard]] double work(std::span<const SampleId> samples) const {
    double sum = 0.0;
    for (const SampleId i : samples) sum += seconds_[i];
    return sum;
  }

  /// Samples, as one side of a handover.
  [[nodiscard]] HandoverSide side(std::span<const SampleId> samples) const {
    return {samples, seconds_, max_tokens_};
  }

  /// The schedule of the packs that Eq. 1 likes best. @param most gives up, with infinite seconds, if it takes so long or
  /// longer. @pre there are samples, and a pipeline holds each.
  [[nodiscard]] Schedule operator()(std::span<const SampleId> samples, double most) {
    return schedule(samples, pack(samples, max_tokens_, options_.packing), most);
  }

  /// The fastest schedule of packs as even as can be, for each of several limits of their tokens: shorter packs may need less
  /// recomputation, or none. @pre as above.
  [[nodiscard]] Schedule careful(std::span<const SampleId> samples, double most) {
    Schedule best;
    best.seconds = most;
    Tokens longest = 0;
    for (const SampleId i : samples) longest = std::max(longest, lengths_[i]);
    PackPipelineOptions even = options_.packing;
    even.max_exchange_steps = even.max_exact_steps = options_.careful_steps;
    even.most_counts = options_.careful_counts;
    std::vector<std::vector<std::uint32_t>> known;
    for (Tokens limit = max_tokens_;; limit = std::max(longest, limit * 3 / 4)) {
      for (const PackPipelineOptions& options : {options_.packing, even}) {
        PipelinePacking packing = pack(samples, limit, options);
        if (std::find(known.begin(), known.end(), packing.pack) != known.end()) continue;
        Schedule found = schedule(samples, packing, best.seconds);
        known.push_back(std::move(packing.pack));
        improve(std::move(found), best);
      }
      if (limit <= longest || limit <= max_tokens_ / 4) return best;
    }
  }

  [[nodiscard]] Schedule with_peaks(Schedule schedule) { return scheduler_.with_peaks(std::move(schedule)); }

 private:
  [[nodiscard]] PipelinePacking pack(std::span<const SampleId> samples, Tokens max_tokens,
                                     const PackPipelineOptions& options) const {
    std::vector<double> seconds;
    std::vector<Tokens> tokens;
    seconds.reserve(samples.size());
    tokens.reserve(samples.size());
    for (const SampleId i : samples) {
      seconds.push_back(seconds_[i]);
      tokens.push_back(lengths_[i]);
    }
    const PipelineKind kind{.max_tokens = max_tokens, .stages = stages_};
    PackPipelineOptions useful = options;
    useful.useful_tokens = std::min(max_tokens, std::max(options.useful_tokens, useful_tokens_));
    return pack_pipeline(seconds, tokens, kind, constant_, useful);
  }

  [[nodiscard]] Schedule schedule(std::span<const SampleId> samples, const PipelinePacking& packing,
                                  double most) {
    Schedule best;
    if (packing.pack.empty()) return best;
    std::vector<std::vector<SampleId>> own(packing.packs);
    for (std::size_t i = 0; i < samples.size(); ++i) own[packing.pack[i]].push_back(samples[i]);
    Packs packs;
    for (const std::vector<SampleId>& ids : own) {
      for (const SampleId i : ids) packs.add({i, 0, lengths_[i]});
      packs.close();
    }
    const ScheduleOptions fit{.fit = FitPolicy::recompute, .each_pack = options_.recompute};
    best.pipelines = 1;
    best.forward = best.backward = in_rows(std::move(packs));
    scheduler_(best, fit);
    if (best.fits() && stages_ > 1) shorten_by_order(best, fit, scheduler_);
    if (best.seconds >= most) best.seconds = std::numeric_limits<double>::infinity();
    return best;
  }

  std::span<const Tokens> lengths_;
  std::span<const double> seconds_;
  const TwoStageOptions& options_;
  Tokens max_tokens_;  // of a pack
  std::size_t stages_;
  Tokens useful_tokens_;
  Scheduler scheduler_;
  double constant_ = 0.0;  // of a pack on the stage that has most
};

}  // namespace slimpack::detail
