#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/cost/priced_models.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/partition/sample_prices.hpp"
#include "slimpack/plan/assemble.hpp"

namespace slimpack {

/// Makes prices and memory of one kind of a strategy's pipelines.
using MakeKindModels = std::function<PricedModels(const Strategy& strategy, std::uint32_t kind)>;

/// A strategy, and what its pipelines cost and hold.
class StrategyModels {
 public:
  /// @throws InvalidInput as `make`.
  StrategyModels(Strategy strategy, const MakeKindModels& make)
      : strategy_(std::move(strategy)), pipelines_(strategy_.kinds()) {
    for (std::size_t p = 0; p < strategy_.kind.size(); ++p)
      pipelines_[strategy_.kind[p]].push_back(static_cast<PipelineId>(p));
    for (std::uint32_t k = 0; k < pipelines_.size(); ++k) models_.push_back(make(strategy_, k));
  }

  [[nodiscard]] const Strategy& strategy() const { return strategy_; }
  [[nodiscard]] std::size_t kinds() const { return pipelines_.size(); }
  /// The pipelines of a kind, ascending.
  [[nodiscard]] std::span<const PipelineId> pipelines(std::size_t kind) const { return pipelines_[kind]; }
  [[nodiscard]] GroupPrices& prices(std::size_t kind) { return models_[kind].prices; }
  [[nodiscard]] const Memory& memory(std::size_t kind) const { return models_[kind].memory; }
  /// Gradients and optimiser at the end of a step, which all pipelines wait for.
  [[nodiscard]] double sync_seconds() const {
    double most = 0.0;
    for (const PricedModels& models : models_) most = std::max(most, models.prices.alone().sync_seconds());
    return most;
  }

 private:
  Strategy strategy_;
  std::vector<std::vector<PipelineId>> pipelines_;  // [kind]
  std::vector<PricedModels> models_;                // [kind]
};

/// Schedules of all pipelines of a strategy.
struct StrategySchedules {
  std::vector<PlacedSchedule> placed;                        ///< empty: nothing fits
  double seconds = std::numeric_limits<double>::infinity();  ///< of the slowest, without synchronisation
};

/// A schedule of pipelines of a kind that run nothing.
[[nodiscard]] inline PlacedSchedule idle_schedule(const Memory& memory,
                                                  std::span<const PipelineId> pipelines) {
  PlacedSchedule idle;
  idle.pipelines.assign(pipelines.begin(), pipelines.end());
  idle.schedule.pipelines = pipelines.size();
  idle.schedule.leads.reset(memory.stages(), 0);
  idle.schedule.seconds = 0.0;
  std::vector<double> bytes;
  for (std::size_t s = 0; s < memory.stages(); ++s) bytes.push_back(memory.static_bytes(s));
  idle.peak_bytes.assign(pipelines.size(), bytes);
  return idle;
}

/// T(l, P) of Hydraulis for all kinds and samples: seconds on the kind's busiest stage, both passes, without the constants of
/// packs. [kind * samples + sample]. O(kinds * samples).
[[nodiscard]] inline std::vector<double> sample_seconds(StrategyModels& models,
                                                        std::span<const Tokens> lengths) {
  std::vector<double> seconds;
  seconds.reserve(models.kinds() * lengths.size());
  for (std::size_t k = 0; k < models.kinds(); ++k) {
    const SamplePrices prices(lengths, {}, models.prices(k));
    for (SampleId id = 0; id < lengths.size(); ++id) seconds.push_back(prices.whole(id));
  }
  return seconds;
}

}  // namespace slimpack
