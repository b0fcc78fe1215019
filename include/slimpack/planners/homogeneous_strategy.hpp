#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/partition/sample_prices.hpp"
#include "slimpack/schedule/full_pack.hpp"
#include "slimpack/strategy/strategy_models.hpp"

namespace slimpack::detail {

/// A strategy of equal pipelines with its models, and what it takes at least for each sample.
class HomogeneousStrategy {
 public:
  /// @throws InvalidInput if the models can't be made, for example because weights leave no room.
  HomogeneousStrategy(Strategy strategy, const MakeKindModels& make, std::span<const Tokens> lengths)
      : strategy_(std::move(strategy)), models_(make(strategy_, 0)) {
    require_durations(models_.prices.alone(), lengths);
    const SamplePrices prices(lengths, {}, models_.prices);
    const auto n = static_cast<double>(pipelines());
    seconds_.reserve(lengths.size());
    for (SampleId id = 0; id < lengths.size(); ++id) seconds_.push_back(prices.whole(id) / n);
  }

  [[nodiscard]] const Strategy& strategy() const { return strategy_; }
  [[nodiscard]] std::size_t pipelines() const { return strategy_.pipelines.size(); }
  [[nodiscard]] GroupPrices& prices() { return models_.prices; }
  [[nodiscard]] const Memory& memory() const { return models_.memory; }
  /// As `PricedModels::missing`.
  [[nodiscard]] const std::vector<std::string>& missing() const { return models_.missing; }
  [[nodiscard]] double sync_seconds() const { return models_.prices.alone().sync_seconds(); }
  /// Whether a pack of so many tokens can fit: each stage holds them once at least, all layers recomputed.
  [[nodiscard]] bool may_hold(Tokens tokens) const {
    return static_cast<double>(tokens) <= most_sample_tokens(memory(), true);
  }
  /// Of a sample, on the busiest stage, shared equally by all pipelines.
  [[nodiscard]] double seconds(SampleId id) const { return seconds_[id]; }

 private:
  Strategy strategy_;
  PricedModels models_;
  std::vector<double> seconds_;
};

}  // namespace slimpack::detail
