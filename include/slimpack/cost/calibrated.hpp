#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/cost/calibrated_options.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/cost/layer_rates.hpp"
#include "slimpack/cost/polynomial.hpp"
#include "slimpack/cost/synchronise.hpp"
#include "slimpack/cost/zero3.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/sharding/attention_model.hpp"

namespace slimpack {

/// Analytic model of time (SlimPack, section 5.1): FLOPs over achieved rates, separately for dense products
/// and attention and for each pass; memory-bound operators; keys, values and their gradients that a slice reads and
/// writes for its prefix (`prefix_bytes`); the output head on the last stage; tensor- and context-parallel
/// communication; recomputed layers. A CostModel that recomputes, merges, separates attention and prices several
/// ways to exchange keys; a PolynomialCostModel as long as nothing hides an exchange.
///
/// Attention's achieved fractions are those of whole samples, and include what memory traffic costs these. A slice pays for
/// its prefix in addition: a sample costs more in slices than whole, by the extra traffic.
class CalibratedCost {
 public:
  /// Of one kind of pipelines of a strategy. @throws InvalidInput if a part of it or an option is impossible.
  CalibratedCost(Transformer model, Device device, const Strategy& strategy, std::uint32_t kind,
                 CalibratedOptions options = {})
      : layers_(strategy.spec_of_kind(kind).layers),
        rates_(std::move(model), std::move(device), strategy.spec_of_kind(kind), options),
        zero3_seconds_(zero3_seconds(strategy, kind, rates_.model(), rates_.device(), options.zero3)) {
    SyncOptions sync = options.sync;
    if (options.zero3.on) sync.zero3 = options.zero3.group;
    sync_seconds_ = slimpack::sync_seconds(strategy, rates_.model(), rates_.device(), sync);
    tabulate();
  }

  /// Of one pipeline, which trains alone. @throws InvalidInput if a part of it or an option is impossible.
  CalibratedCost(Transformer model, Device device, const PipelineSpec& spec, CalibratedOptions options = {})
      : CalibratedCost(std::move(model), std::move(device), Strategy{{spec}, {0}}, 0, options) {}

  /// Of the pipelines of a layout. @throws InvalidInput if the job or an option is impossible.
  explicit CalibratedCost(const Job& job, CalibratedOptions options = {})
      : CalibratedCost(job.model, job.device, layout_strategy(job), 0, options) {}

  [[nodiscard]] std::size_t stages() const { return layers_.size(); }
  [[nodiscard]] std::span<const std::int32_t> layers() const { return layers_; }

  /// Time of `[begin, end)` on a stage, in seconds. O(1).
  [[nodiscard]] double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    return table_[index(pass)][stage].seconds(begin, end) +
           layers_[stage] * exchange_seconds(begin, end, pass);
  }

  /// Sum of `slice_seconds` over all stages: communication is priced once. O(1).
  [[nodiscard]] double pipeline_seconds(Tokens begin, Tokens end, Pass pass) const {
    return totals_[index(pass)].seconds(begin, end) +
           rates_.model().layers * exchange_seconds(begin, end, pass);
  }
  /// Adds `slice_seconds` of every stage to `seconds`, one number per stage: communication is priced once.
  void add_slice_seconds(Tokens begin, Tokens end, Pass pass, std::span<double> seconds) const {
    SliceSums sums;
    sums.add(begin, end);
    const double exchange = exchange_seconds(begin, end, pass);
    for (std::size_t s = 0; s < seconds.size(); ++s)
      seconds[s] += table_[index(pass)][s].seconds(sums) + layers_[s] * exchange;
  }

  /// Adds the time of whole samples on each stage to `seconds`: communication of each is priced once. O(samples + stages).
  void add_sample_seconds(std::span<const Tokens> lengths, Pass pass, std::span<double> seconds) const {
    SliceSums sums;
    double exchange = 0.0;
    for (const Tokens length : lengths) {
      sums.add(0, length);
      exchange += exchange_seconds(0, length, pass);
    }
    for (std::size_t s = 0; s < seconds.size(); ++s)
      seconds[s] += table_[index(pass)][s].seconds(sums) + layers_[s] * exchange;
  }

  /// What one layer that is recomputed adds to a backward slice `[begin, end)`: its forward pass. O(1).
  [[nodiscard]] double recompute_seconds(std::size_t stage, Tokens begin, Tokens end) const {
    return recompute_rates_[stage].seconds(begin, end) + exchange_seconds(begin, end, Pass::forward);
  }

  /// What one layer that waits in the host's memory adds to a pack: the part of its way over the host's link that the
  /// layer's own dense compute does not hide. Keys and values stay. O(1).
  [[nodiscard]] double offload_seconds(std::size_t stage, Tokens tokens, Pass pass) const {
    return static_cast<double>(tokens) * rates_.rest_of_offload(rates_.options().offload, stage, pass);
  }

  /// `slice_seconds` without attention's arithmetic: dense products, memory and communication (Wl of WLB-LLM's Eq. 2).
  [[nodiscard]] double other_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    return slice_seconds(stage, begin, end, pass) -
           attention_seconds(stage, pass, layer_attention_seconds(begin, end, pass));
  }
  /// `recompute_seconds` without attention's arithmetic.
  [[nodiscard]] double recompute_other_seconds(std::size_t stage, Tokens begin, Tokens end) const {
    return recompute_seconds(stage, begin, end) - layer_attention_seconds(begin, end, Pass::forward);
  }
  /// Attention of a stage when the kernel takes so many seconds for one layer.
  [[nodiscard]] double attention_seconds(std::size_t stage, Pass, double layer) const {
    return layers_[stage] * layer;
  }

  /// The same model with other attention than the device's. @param per_twice_pair seconds of one layer, in each pass, per unit
  /// of `twice_causal_pairs` on one context-parallel rank; ranks share it equally.
  [[nodiscard]] CalibratedCost with_attention(const AttentionSeconds& per_twice_pair) const {
    CalibratedCost copy = *this;
    copy.rates_.set_attention(per_twice_pair);
    copy.tabulate();
    return copy;
  }

  /// Launches and host work; with ZeRO-3, the communication of parameters and gradients that nothing hides.
  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const {
    return rates_.device().pack_overhead + zero3_seconds_[stage][index(pass)];
  }

  /// Hidden states of a pack (or their gradients) between a stage and the one after it.
  [[nodiscard]] double transfer_seconds(std::size_t stage, Tokens tokens, Pass) const {
    return rates_.transfer_seconds(stage, tokens);
  }

  /// Whether `coefficients` is the whole time of a slice: nothing hides an exchange.
  [[nodiscard]] bool is_polynomial() const {
    return exchange_[0].is_polynomial() && exchange_[1].is_polynomial();
  }
  /// Time that is polynomial in a slice's bounds: everything but exchanges that may be hidden.
  [[nodiscard]] SliceCoefficients coefficients(std::size_t stage, Pass pass) const {
    SliceCoefficients c = table_[index(pass)][stage];
    return c += static_cast<double>(layers_[stage]) * exchange_coefficients(pass);
  }
  /// The same of `recompute_seconds`.
  [[nodiscard]] SliceCoefficients recompute_coefficients(std::size_t stage) const {
    return recompute_rates_[stage] + exchange_coefficients(Pass::forward);
  }

  /// Whether `group` times the pipeline's context parallelism is possible with an exchange that is allowed.
  [[nodiscard]] bool supports_context_parallel(std::int32_t group) const {
    return group > 0 && !rates_.exchanges_of(group).empty();
  }
  /// The same model for packs that `group` pipelines run together, each on its share (DP-Merge). They are taken to
  /// have consecutive devices.
  /// @throws InvalidInput if that is not supported.
  [[nodiscard]] CalibratedCost with_context_parallel(std::int32_t group) const {
    CalibratedCost copy = *this;
    copy.rates_.merge(group);
    copy.tabulate();
    return copy;
  }

  /// Ways to exchange that are allowed and possible.
  [[nodiscard]] ExchangeSet exchanges() const { return rates_.exchanges(); }
  /// The same model with one way alone. @throws InvalidInput if it is not allowed or not possible.
  [[nodiscard]] CalibratedCost with_exchange(KeyExchange exchange) const {
    CalibratedCost copy = *this;
    copy.rates_.set_exchange(exchange);
    copy.tabulate();
    return copy;
  }

  /// Gradients, updated parameters and the optimiser of a step, as `slimpack::sync_seconds` prices the strategy.
  [[nodiscard]] double sync_seconds() const { return sync_seconds_; }

 private:
  [[nodiscard]] static constexpr std::size_t index(Pass pass) { return pass == Pass::forward ? 0 : 1; }

  [[nodiscard]] double layer_attention_seconds(Tokens begin, Tokens end, Pass pass) const {
    return pair_seconds_[index(pass)] * twice_causal_pairs(begin, end);
  }

  void tabulate() {
    recompute_rates_.clear();
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      pair_seconds_[index(pass)] = rates_.twice_pair_seconds(pass);
      exchange_[index(pass)] = rates_.exchange(pass);
      std::vector<SliceCoefficients>& table = table_[index(pass)];
      table.clear();
      for (std::size_t s = 0; s < stages(); ++s) {
        SliceCoefficients layer = rates_.coefficients(s, pass);
        if (pass == Pass::forward) recompute_rates_.push_back(layer);
        layer.per_token += rates_.exposed_offload(rates_.options().offload, s, pass);
        table.push_back(static_cast<double>(layers_[s]) * layer);
      }
      table.back().per_token += rates_.head_seconds(pass);
      totals_[index(pass)] = {};
      for (const SliceCoefficients& stage : table) totals_[index(pass)] += stage;
    }
  }

  /// What depends on the exchange of keys, of one layer.
  [[nodiscard]] double exchange_seconds(Tokens begin, Tokens end, Pass pass) const {
    if (rates_.context_ranks() == 1 || begin == end) return 0.0;
    return exchange_[index(pass)].seconds(begin, end, layer_attention_seconds(begin, end, pass));
  }
  [[nodiscard]] SliceCoefficients exchange_coefficients(Pass pass) const {
    if (rates_.context_ranks() == 1 || !is_polynomial()) return {};
    const ExchangeRates& rates = exchange_[index(pass)].polynomial();
    return SliceCoefficients{.per_token = rates.per_query, .per_key = rates.per_key} +
           per_prefix_key(rates.per_prefix);
  }

  std::vector<std::int32_t> layers_;
  LayerRates rates_;
  std::array<std::vector<SliceCoefficients>, 2> table_;  // [forward, backward][stage]
  std::array<SliceCoefficients, 2> totals_;              // of all stages
  std::vector<SliceCoefficients> recompute_rates_;       // [stage], one layer
  std::array<double, 2> pair_seconds_{};                 // attention of one layer
  std::array<CheapestExchange, 2> exchange_;             // of one layer
  std::vector<std::array<double, 2>> zero3_seconds_;     // [stage][forward, backward], of a pack
  double sync_seconds_ = 0.0;
};

}  // namespace slimpack
