#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/flops.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/cost/any_cost.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/exchange.hpp"
#include "slimpack/cost/least_attention.hpp"
#include "slimpack/cost/pack_attention.hpp"
#include "slimpack/cost/polynomial.hpp"

namespace slimpack {

/// Prices of slices and packs on pipelines of one kind, by a cost model of any type; code that plans with them need not be a
/// template. If the model is a polynomial of a slice's bounds, its coefficients are tabulated and no price calls the model;
/// otherwise the price of a slice on all stages is one call (`AnyCost`).
///
/// Packs are cut, and lower bounds are stated, by the prices of slices. A pack never takes less than its slices do:
/// - Each slice exchanges keys in the way that is cheapest for it; a pack exchanges those of all its slices in one way
///   (`ways`).
/// - With an attention model, a slice's attention runs at the best rate, and ranks share it equally; a pack's attention takes
///   as long as on the slowest rank (`price_pack` with the seconds that `attention()` finds).
///
/// A value: all copies share one copy of the model.
class Prices {
 public:
  /// @param ranks context-parallel ranks of each of the model's pipelines. @throws InvalidInput if the model has no
  /// stages, or `ranks` is not positive.
  template <CostModel C>
  explicit Prices(C cost, std::int32_t ranks = 1) : Prices(AnyCost(std::move(cost)), ranks) {}

  /// Prices with an attention model, whose attention replaces the cost model's. A cost model that can't tell attention from
  /// the rest keeps its own prices; packs are sharded by the attention model in any case. @param ranks as above.
  /// @param block tokens of a chunk of packs that are sharded by position. @throws InvalidInput if the model has no stages,
  /// or a number is not positive.
  template <CostModel C, BoundedAttentionModel A>
  Prices(const C& cost, A attention, std::int32_t ranks, Tokens block = default_attention_block)
      : Prices(with_attention(cost, attention.least_seconds_per_twice_pair(), ranks), ranks) {
    require(block > 0, "block is ", block, "; expected a positive number of tokens");
    attach(std::make_shared<const ModelPackAttention<A>>(std::move(attention), block));
  }

  [[nodiscard]] std::size_t stages() const { return stages_; }
  [[nodiscard]] double sync_seconds() const { return sync_seconds_; }
  /// Context-parallel ranks that share a pack, of all pipelines that run it.
  [[nodiscard]] std::int32_t ranks() const { return ranks_; }

  /// The ways to exchange keys that a pack can choose from; empty with one rank, or if the cost model names none.
  [[nodiscard]] std::span<const KeyExchange> ways() const { return ways_; }
  /// Whether this is one of the `ways`.
  [[nodiscard]] bool can_exchange(KeyExchange exchange) const {
    return std::find(ways_.begin(), ways_.end(), exchange) != ways_.end();
  }
  /// Prices of packs that exchange keys in one of these ways; for `KeyExchange::none`, these.
  /// @pre ways() contains `exchange`, or it is `none`.
  [[nodiscard]] const Prices& with_exchange(KeyExchange exchange) const {
    if (with_exchange_.empty() || exchange == KeyExchange::none) return *this;
    return with_exchange_[static_cast<std::size_t>(std::find(ways_.begin(), ways_.end(), exchange) -
                                                   ways_.begin())];
  }

  /// Prices the attention of packs; null if no attention model was given. Clone it to use it.
  [[nodiscard]] const PackAttention* attention() const { return attention_.get(); }

  /// Whether every slice costs a polynomial of its bounds.
  [[nodiscard]] bool polynomial() const { return polynomial_; }
  /// Sum of all stages' coefficients. @pre polynomial().
  [[nodiscard]] const SliceCoefficients& pipeline_coefficients(Pass pass) const {
    return totals_[index(pass)];
  }

  /// Tokens `[begin, end)` of a sample on one stage.
  [[nodiscard]] double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    if (polynomial_) return rates_[index(pass)][stage].seconds(begin, end);
    return cost_.slice_seconds(stage, begin, end, pass);
  }

  /// The same summed over all stages: the work that packs are balanced by.
  [[nodiscard]] double pipeline_seconds(Tokens begin, Tokens end, Pass pass) const {
    if (polynomial_) return totals_[index(pass)].seconds(begin, end);
    return cost_.pipeline_seconds(begin, end, pass);
  }

  /// The same of all slices of a pack.
  [[nodiscard]] double pipeline_seconds(std::span<const Slice> pack, Pass pass) const {
    if (polynomial_) return totals_[index(pass)].seconds(sums_of(pack));
    double sum = 0.0;
    for (const Slice& slice : pack) sum += cost_.pipeline_seconds(slice.begin, slice.end, pass);
    return sum;
  }

  /// Adds a slice's time on each stage to `seconds`. @pre seconds.size() == stages().
  void add_slice_seconds(Tokens begin, Tokens end, Pass pass, std::span<double> seconds) const {
    if (!polynomial_) return cost_.add_slice_seconds(begin, end, pass, seconds);
    SliceSums sums;
    sums.add(begin, end);
    for (std::size_t s = 0; s < stages_; ++s) seconds[s] += rates_[index(pass)][s].seconds(sums);
  }

  /// Adds the time of whole samples on each stage to `seconds`. @pre seconds.size() == stages().
  void add_sample_seconds(std::span<const Tokens> lengths, Pass pass, std::span<double> seconds) const {
    if (!polynomial_) return cost_.add_sample_seconds(lengths, pass, seconds);
    SliceSums sums;
    for (const Tokens length : lengths) sums.add(0, length);
    for (std::size_t s = 0; s < stages_; ++s) seconds[s] += rates_[index(pass)][s].seconds(sums);
  }

  /// The constant of a pack with tokens on a stage, the launch of attention included.
  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const { return pack_[index(pass)][stage]; }

  /// From the end of a pack on `stage` (backward: `stage` + 1) until its neighbour may start it.
  [[nodiscard]] double transfer_seconds(std::size_t stage, Tokens tokens, Pass pass) const {
    return cost_.transfer_seconds(stage, tokens, pass);
  }
  /// The same for all pairs of neighbours. @param[out] seconds stages() - 1 numbers.
  void transfer_seconds(Tokens tokens, Pass pass, std::span<double> seconds) const {
    cost_.transfer_seconds(tokens, pass, seconds);
  }

  /// A pack on each stage: the sum over its slices plus the constant of a pack. O(slices + stages) if polynomial, else
  /// O(slices * stages). @param[out] seconds stages() numbers.
  void price_pack(std::span<const Slice> pack, Pass pass, std::span<double> seconds) const {
    price_slices(pack, pass, seconds);
  }
  /// The same where one layer's attention takes `layer` seconds on the slowest rank. @pre attention() is not null.
  void price_pack(std::span<const Slice> pack, Pass pass, double layer, std::span<double> seconds) const {
    price_slices(pack, pass, seconds);
    price_attention(pack, pass, layer, seconds);
  }
  /// What that adds to a pack that is priced without it.
  void price_attention(std::span<const Slice> pack, Pass pass, double layer,
                       std::span<double> seconds) const {
    const double more = layer - launch_[index(pass)] - least_[index(pass)] * sums_of(pack).twice_pairs;
    for (std::size_t s = 0; s < stages_; ++s) seconds[s] += more * weights_[index(pass)][s];
  }

  /// Recomputing one layer of each stage for a backward pack, the layer's constant included.
  /// @param[out] seconds stages() numbers. @pre recomputes().
  void price_recompute(std::span<const Slice> pack, std::span<double> seconds) const {
    std::copy(recompute_pack_.begin(), recompute_pack_.end(), seconds.begin());
    if (polynomial_) return add_sums(sums_of(pack), recompute_rates_, seconds);
    for (const Slice& slice : pack) {
      for (std::size_t s = 0; s < stages_; ++s)
        seconds[s] += cost_.recompute_seconds(s, slice.begin, slice.end);
    }
  }
  /// The same where that layer's forward attention takes `layer` seconds on the slowest rank.
  void price_recompute(std::span<const Slice> pack, double layer, std::span<double> seconds) const {
    price_recompute(pack, seconds);
    const double more = layer - launch_[0] - least_[0] * sums_of(pack).twice_pairs;
    for (std::size_t s = 0; s < stages_; ++s) seconds[s] += recompute_weight() * more;
  }

  /// Attention of all stages if that of one layer takes `layer` seconds; zero if the model can't tell it from the rest.
  [[nodiscard]] double pipeline_attention_seconds(double layer, Pass pass) const {
    return layer * weight_sums_[index(pass)];
  }
  /// The part of `pipeline_seconds` that is attention: at the best rate, shared equally. @pre attention() is not null.
  [[nodiscard]] double least_attention_seconds(Tokens begin, Tokens end, Pass pass) const {
    return pipeline_attention_seconds(least_[index(pass)] * twice_causal_pairs(begin, end), pass);
  }

  /// Whether the model prices recomputation.
  [[nodiscard]] bool recomputes() const { return cost_.recomputes(); }

  /// Whether the model prices layers in the host's memory.
  [[nodiscard]] bool offloads() const { return cost_.offloads(); }
  /// What one of them adds to a pack of so many tokens. @pre offloads().
  [[nodiscard]] double offload_seconds(std::size_t stage, Tokens tokens, Pass pass) const {
    return cost_.offload_seconds(stage, tokens, pass);
  }

  /// Whether `group` pipelines can run a pack together.
  [[nodiscard]] bool merges(std::size_t group) const { return cost_.merges(group); }

  /// Prices on each of `group` pipelines that run packs together. @pre merges(group).
  /// @throws InvalidInput if the model of these has other stages.
  [[nodiscard]] Prices merged(std::size_t group) const {
    if (group == 1) return *this;
    Prices out(cost_.merged(group), static_cast<std::int32_t>(group) * ranks_);
    require(out.stages_ == stages_, "the cost model of ", group, " pipelines that run packs together has ",
            out.stages_, " stages; expected the ", stages_, " that one pipeline has");
    if (attention_) out.attach(attention_);
    return out;
  }

 private:
  Prices(AnyCost cost, std::int32_t ranks)
      : cost_(std::move(cost)), stages_(cost_.stages()), sync_seconds_(cost_.sync_seconds()), ranks_(ranks) {
    require(ranks > 0, "there are ", ranks, " context-parallel ranks; expected a positive number");
    require(stages_ > 0, "the cost model has 0 stages; expected at least one");
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (std::size_t s = 0; s < stages_; ++s) {
        pack_[index(pass)].push_back(cost_.pack_seconds(s, pass));
        weights_[index(pass)].push_back(cost_.attention_weight(s, pass));
        weight_sums_[index(pass)] += weights_[index(pass)].back();
      }
    }
    for (std::size_t s = 0; s < stages_; ++s) recompute_pack_.push_back(cost_.recompute_pack_seconds(s));
    if (cost_.polynomial()) tabulate();
    if (ranks > 1) find_ways();
  }

  [[nodiscard]] static constexpr std::size_t index(Pass pass) { return pass == Pass::forward ? 0 : 1; }

  [[nodiscard]] static SliceSums sums_of(std::span<const Slice> pack) {
    SliceSums sums;
    for (const Slice& slice : pack) sums.add(slice.begin, slice.end);
    return sums;
  }

  static void add_sums(const SliceSums& sums, const std::vector<SliceCoefficients>& rates,
                       std::span<double> seconds) {
    for (std::size_t s = 0; s < rates.size(); ++s) seconds[s] += rates[s].seconds(sums);
  }

  /// Sets `seconds` to the constants and slices of a pack.
  void price_slices(std::span<const Slice> pack, Pass pass, std::span<double> seconds) const {
    std::copy(pack_[index(pass)].begin(), pack_[index(pass)].end(), seconds.begin());
    if (polynomial_) return add_sums(sums_of(pack), rates_[index(pass)], seconds);
    for (const Slice& slice : pack) add_slice_seconds(slice.begin, slice.end, pass, seconds);
  }

  /// Finds the prices of each way to exchange keys.
  void find_ways() {
    const ExchangeSet set = cost_.exchanges();
    for (const KeyExchange e : key_exchanges) {
      if (!set.contains(e)) continue;
      ways_.push_back(e);
      if (set.size() > 1) with_exchange_.push_back(Prices(cost_.with_exchange(e), ranks_));
    }
  }

  /// As `weights_`, for one recomputed layer.
  [[nodiscard]] double recompute_weight() const { return cost_.separable() ? 1.0 : 0.0; }

  void attach(const std::shared_ptr<const PackAttention>& attention) {
    attention_ = attention;
    const AttentionSeconds least = attention->least_seconds_per_twice_pair(),
                           launch = attention->launch_seconds();
    least_ = {least.forward / ranks_, least.backward / ranks_};
    launch_ = {launch.forward, launch.backward};
    for (std::size_t p = 0; p < 2; ++p) {
      for (std::size_t s = 0; s < stages_; ++s) pack_[p][s] += launch_[p] * weights_[p][s];
    }
    for (double& seconds : recompute_pack_) seconds += recompute_weight() * launch_[0];
    for (Prices& way : with_exchange_) way.attach(attention);
  }

  void tabulate() {
    polynomial_ = true;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (std::size_t s = 0; s < stages_; ++s) {
        rates_[index(pass)].push_back(cost_.coefficients(s, pass));
        totals_[index(pass)] += rates_[index(pass)].back();
      }
    }
    for (std::size_t s = 0; cost_.recomputes() && s < stages_; ++s)
      recompute_rates_.push_back(cost_.recompute_coefficients(s));
  }

  AnyCost cost_;
  std::size_t stages_ = 0;
  double sync_seconds_ = 0.0;
  bool polynomial_ = false;
  std::int32_t ranks_ = 1;
  std::shared_ptr<const PackAttention> attention_;
  std::array<double, 2> least_{},
      launch_{};  // [pass] attention of one layer: per unit of twice_causal_pairs; of a pack
  std::vector<double> weights_[2];       // [pass][stage] attention of the stage per second of one layer
  std::array<double, 2> weight_sums_{};  // of all stages
  std::vector<KeyExchange> ways_;
  std::vector<Prices> with_exchange_;               // [place in ways_]; empty if there is one
  std::vector<double> pack_[2];                     // [pass][stage]
  std::vector<double> recompute_pack_;              // [stage] constant of one recomputed layer
  std::vector<SliceCoefficients> rates_[2];         // [pass][stage], if polynomial
  std::vector<SliceCoefficients> recompute_rates_;  // [stage]
  SliceCoefficients totals_[2];
};

}  // namespace slimpack
