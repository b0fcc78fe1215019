#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "slimpack/planners/strategy_models.hpp"
#include "slimpack/schedule/full_pack.hpp"

namespace slimpack {

namespace detail {

/// Lengths at which models are asked.
[[nodiscard]] inline std::vector<Tokens> probe_lengths() {
  std::vector<Tokens> lengths;
  for (int bit = 0; bit <= 20; bit += 4) lengths.push_back(Tokens{1} << bit);
  return lengths;
}

/// What models say of samples of some lengths and of every stage, but for transfers. Models that agree on that are
/// taken to price and hold samples alike.
[[nodiscard]] inline std::vector<double> sample_probes(const PricedModels& models) {
  const Prices& prices = models.prices.alone();
  const Memory& memory = models.memory;
  std::vector<double> probes{static_cast<double>(prices.stages()), static_cast<double>(prices.ranks()),
                             static_cast<double>(models.useful_tokens)};
  for (std::size_t s = 0; s < prices.stages(); ++s) {
    probes.push_back(static_cast<double>(memory.recompute_limit(s)));
    probes.push_back(memory.room_bytes(s));
    probes.push_back(memory.kv_gradient_bytes(s));
    probes.push_back(memory.activation_bytes(s, 0));
    probes.push_back(memory.activation_bytes(s, memory.recompute_limit(s)));
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      probes.push_back(prices.pack_seconds(s, pass));
      for (const Tokens tokens : probe_lengths()) {
        probes.push_back(prices.slice_seconds(s, 0, tokens, pass));
        probes.push_back(memory.workspace_bytes(s, pass, tokens, tokens, 1, memory.recompute_limit(s)));
      }
    }
  }
  return probes;
}

/// The same with transfers between stages. Models that agree on that are taken to agree.
[[nodiscard]] inline std::vector<double> model_probes(const PricedModels& models) {
  const Prices& prices = models.prices.alone();
  std::vector<double> probes = sample_probes(models);
  for (std::size_t s = 0; s + 1 < prices.stages(); ++s) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const Tokens tokens : probe_lengths()) probes.push_back(prices.transfer_seconds(s, tokens, pass));
    }
  }
  return probes;
}

}  // namespace detail

/// Candidate strategies with their models, made once for all batches. Pipelines of any strategy whose models agree share them.
class StrategySet {
 public:
  /// @param strategies have to outlive this. One that `make` refuses can't be used.
  /// @throws InvalidInput if a strategy is impossible. O(strategies * devices) and `make` for each kind.
  StrategySet(const Transformer& model, std::span<const Strategy> strategies, const MakeKindModels& make) {
    std::map<std::vector<double>, std::size_t> known;
    for (const Strategy& strategy : strategies) {
      validate(strategy, model);
      add(strategy, make, known);
    }
  }

  /// Strategies that can be used; of those that differ only in what no model sees, such as other devices of the same
  /// nodes, the first.
  [[nodiscard]] std::size_t size() const { return strategies_.size(); }
  [[nodiscard]] const Strategy& strategy(std::size_t i) const { return *strategies_[i].strategy; }
  [[nodiscard]] double sync_seconds(std::size_t i) const { return strategies_[i].sync_seconds; }
  /// [kind of the strategy] place in `pipelines`.
  [[nodiscard]] std::span<const std::size_t> kinds(std::size_t i) const { return strategies_[i].kinds; }
  /// [kind of the strategy] how many pipelines are of it.
  [[nodiscard]] std::span<const double> counts(std::size_t i) const { return strategies_[i].counts; }
  /// Pipelines that differ in their models.
  [[nodiscard]] std::span<const PipelineModels> pipelines() const { return pipelines_; }
  /// The first pipelines that price and hold samples as these do; transfers between stages may differ.
  [[nodiscard]] std::size_t alike(std::size_t pipelines) const { return alike_[pipelines]; }
  /// Why the first strategy that can't be used can't; empty if all can.
  [[nodiscard]] const std::string& reason() const { return reason_; }

  [[nodiscard]] StrategyModels models(std::size_t i) const {
    std::vector<PipelineModels> models;
    for (const std::size_t k : kinds(i)) models.push_back(pipelines_[k]);
    return {strategy(i), std::move(models), sync_seconds(i)};
  }

 private:
  struct Known {
    const Strategy* strategy;
    double sync_seconds = 0.0;
    std::vector<std::size_t> kinds;
    std::vector<double> counts;
  };

  void add(const Strategy& strategy, const MakeKindModels& make,
           std::map<std::vector<double>, std::size_t>& known) {
    Known own{&strategy, 0.0, {}, std::vector<double>(strategy.kinds(), 0.0)};
    for (const std::uint32_t k : strategy.kind) ++own.counts[k];
    try {
      for (std::uint32_t k = 0; k < strategy.kinds(); ++k) {
        auto models = std::make_shared<PricedModels>(make(strategy, k));
        own.sync_seconds = std::max(own.sync_seconds, models->prices.alone().sync_seconds());
        const auto [at, added] = known.try_emplace(detail::model_probes(*models), pipelines_.size());
        if (added) {
          alike_.push_back(
              samples_.try_emplace(detail::sample_probes(*models), pipelines_.size()).first->second);
          std::vector<Tokens> most = largest_full_packs(models->memory);
          pipelines_.push_back({std::move(models), std::move(most)});
        }
        own.kinds.push_back(at->second);
      }
      if (seen_.insert({own.kinds, own.counts, own.sync_seconds}).second)
        strategies_.push_back(std::move(own));
    } catch (const InvalidInput& error) {
      if (reason_.empty()) reason_ = error.what();
    }
  }

  /// Kinds, how many pipelines are of them, and the synchronisation of strategies so far.
  std::set<std::tuple<std::vector<std::size_t>, std::vector<double>, double>> seen_;
  std::vector<Known> strategies_;
  std::vector<PipelineModels> pipelines_;
  std::map<std::vector<double>, std::size_t>
      samples_;                     // what models say of samples, and the first pipelines of which they do
  std::vector<std::size_t> alike_;  // [place in pipelines_]
  std::string reason_;
};

}  // namespace slimpack
