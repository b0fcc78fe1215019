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

#include "slimpack/core/error.hpp"
#include "slimpack/cost/model_probes.hpp"
#include "slimpack/schedule/full_pack.hpp"
#include "slimpack/strategy/strategy_models.hpp"

namespace slimpack {

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

namespace detail {

/// Refuses a sample that no strategy holds. @throws InvalidInput that says which pipelines come closest.
[[noreturn]] inline void refuse_longest(Tokens longest, const StrategySet& set, bool recompute) {
  std::string closest;
  Tokens most = -1;
  for (std::size_t i = 0; i < set.size(); ++i) {
    for (std::uint32_t n = 0; n < set.kinds(i).size(); ++n) {
      const PipelineModels& models = set.pipelines()[set.kinds(i)[n]];
      if (models.most(recompute) <= most) continue;
      most = models.most(recompute);
      closest = concat("; (", to_text(set.strategy(i).spec_of_kind(n)), ") comes closest with ", most,
                       ", and ", lacks_text(models.priced->memory, longest, recompute));
    }
  }
  throw InvalidInput(concat("a sample of ", longest, " tokens fits none of ", set.size(), " strategies",
                            closest, "; expected shorter samples, more devices or more memory",
                            set.reason().empty() ? "" : concat(" (", set.reason(), ")")));
}

}  // namespace detail

}  // namespace slimpack
