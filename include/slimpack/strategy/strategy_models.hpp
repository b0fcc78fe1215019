#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/cost/priced_models.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/partition/sample_prices.hpp"

namespace slimpack {

/// Makes prices and memory of one kind of a strategy's pipelines.
using MakeKindModels = std::function<PricedModels(const Strategy& strategy, std::uint32_t kind)>;

/// Pipelines of a kind's devices that all devices of a strategy would make: so many hold each layer's optimiser states
/// where ZeRO shards them over all devices. O(pipelines).
[[nodiscard]] inline std::int32_t sharing_pipelines(const Strategy& strategy, std::uint32_t kind) {
  const auto devices = [](const PipelineSpec& spec) {
    return spec.ranks_per_stage() * static_cast<std::int64_t>(spec.stages());
  };
  std::int64_t all = 0;
  for (const PipelineSpec& spec : strategy.pipelines) all += devices(spec);
  return static_cast<std::int32_t>(std::max<std::int64_t>(1, all / devices(strategy.spec_of_kind(kind))));
}

/// What pipelines cost and hold.
struct PipelineModels {
  std::shared_ptr<PricedModels> priced;
  std::vector<Tokens>
      max_tokens;  ///< of a pack, by the layers that each stage recomputes (`largest_full_packs`)

  /// MaxLen(P). @param recompute whether packs may recompute all layers.
  [[nodiscard]] Tokens most(bool recompute) const {
    return recompute ? max_tokens.back() : max_tokens.front();
  }

  /// T(l, P) of Hydraulis, [sample]: seconds of whole samples on the busiest stage, both passes, without the constants
  /// of packs, and with the layers that are recomputed because a full pipeline of such samples would not fit otherwise.
  /// @param[out] work the same without recomputation. O(samples * stages).
  [[nodiscard]] std::vector<double> latencies(std::span<const Tokens> lengths,
                                              std::vector<double>& work) const {
    const SamplePrices prices(lengths, {}, priced->prices);
    std::vector<double> out, layer(priced->memory.stages());
    out.reserve(lengths.size());
    work.clear();
    work.reserve(lengths.size());
    for (SampleId i = 0; i < lengths.size(); ++i) {
      work.push_back(prices.whole(i));
      out.push_back(work.back());
      const auto fits = std::lower_bound(max_tokens.begin(), max_tokens.end(), lengths[i]);
      if (fits == max_tokens.begin() || fits == max_tokens.end()) continue;
      const Slice sample{i, 0, lengths[i]};
      priced->prices.alone().price_recompute({&sample, 1}, layer);
      const auto layers =
          std::min<std::ptrdiff_t>(fits - max_tokens.begin(), priced->memory.recompute_limit(prices.stage()));
      out.back() += static_cast<double>(layers) * layer[prices.stage()];
    }
    return out;
  }
};

/// A strategy, and what its pipelines cost and hold.
class StrategyModels {
 public:
  /// @param strategy has to outlive this. @param models of each kind. @param sync_seconds as below.
  StrategyModels(const Strategy& strategy, std::vector<PipelineModels> models, double sync_seconds)
      : strategy_(&strategy),
        pipelines_(strategy.kinds()),
        models_(std::move(models)),
        sync_seconds_(sync_seconds) {
    for (std::size_t p = 0; p < strategy.kind.size(); ++p)
      pipelines_[strategy.kind[p]].push_back(static_cast<PipelineId>(p));
  }

  [[nodiscard]] const Strategy& strategy() const { return *strategy_; }
  [[nodiscard]] std::size_t kinds() const { return pipelines_.size(); }
  /// The pipelines of a kind, ascending.
  [[nodiscard]] std::span<const PipelineId> pipelines(std::size_t kind) const { return pipelines_[kind]; }
  [[nodiscard]] GroupPrices& prices(std::size_t kind) { return models_[kind].priced->prices; }
  [[nodiscard]] const Memory& memory(std::size_t kind) const { return models_[kind].priced->memory; }
  /// As `PipelineModels::most`.
  [[nodiscard]] Tokens max_tokens(std::size_t kind, bool recompute) const {
    return models_[kind].most(recompute);
  }
  /// Of a pack, on average: UtilLen(P), or 0.
  [[nodiscard]] Tokens useful_tokens(std::size_t kind) const { return models_[kind].priced->useful_tokens; }
  /// As `PricedModels::missing`.
  [[nodiscard]] const std::vector<std::string>& missing() const { return models_.front().priced->missing; }
  /// Gradients and optimiser at the end of a step, which all pipelines wait for.
  [[nodiscard]] double sync_seconds() const { return sync_seconds_; }

 private:
  const Strategy* strategy_;
  std::vector<std::vector<PipelineId>> pipelines_;  // [kind]
  std::vector<PipelineModels> models_;              // [kind]
  double sync_seconds_;
};

}  // namespace slimpack
