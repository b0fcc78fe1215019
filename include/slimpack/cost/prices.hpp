#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/flops.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/exchange.hpp"
#include "slimpack/cost/least_attention.hpp"
#include "slimpack/cost/pack_attention.hpp"
#include "slimpack/cost/polynomial.hpp"

namespace slimpack {

/// A cost model of any type as one type, so that everything that plans with prices is compiled once. Where the model is
/// a polynomial of a slice's bounds, its coefficients are tabulated and no price calls the model; otherwise each price
/// of a slice on all stages is one call. A model may have `pipeline_seconds(begin, end, pass)`, the sum over stages, and
/// `add_slice_seconds(begin, end, pass, seconds)`, which adds all stages' times, where these cost less than one stage
/// after another.
///
/// Slices are what packs are cut by, and what bounds are stated with. A pack takes no less than its slices:
/// - They exchange keys in the way that is cheapest for each; a pack in one way for all of them (`ways`).
/// - Where an attention model is given, their attention is at its best rate, and shared equally by ranks; that of a pack
///   takes what it does on the slowest of them (`price_pack` with the seconds that `attention()` finds).
///
/// A value: it holds a copy of the model, which all copies of the prices share.
class Prices {
 public:
  /// @param ranks context-parallel ranks of each of the model's pipelines. @throws InvalidInput if the model has no
  /// stages, or `ranks` is not positive.
  template <CostModel C>
  explicit Prices(C cost, std::int32_t ranks = 1)
      : model_(std::make_shared<const C>(std::move(cost))), operations_(&operations_of<C>), ranks_(ranks) {
    require(ranks > 0, "there are ", ranks, " context-parallel ranks; expected a positive number");
    const C& model = *static_cast<const C*>(model_.get());
    stages_ = model.stages();
    require(stages_ > 0, "the cost model has 0 stages; expected at least one");
    sync_seconds_ = slimpack::sync_seconds(model);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (std::size_t s = 0; s < stages_; ++s) pack_[index(pass)].push_back(model.pack_seconds(s, pass));
    }
    for (std::size_t s = 0; s < stages_; ++s) pack_again_.push_back(recompute_pack_seconds(model, s));
    find_weights(model);
    if constexpr (ExchangingCostModel<C>) find_ways(model);
    if constexpr (PolynomialCostModel<C>) {
      if (model.is_polynomial()) tabulate(model);
    }
  }

  /// Of packs whose attention takes what a kernel does. A model that can't tell attention from the rest keeps its own
  /// prices; packs are sharded by the kernel all the same. @param ranks as above.
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

  /// The ways to exchange keys from which a pack takes one; none where nobody shares packs, or nobody says.
  [[nodiscard]] std::span<const KeyExchange> ways() const { return ways_; }
  /// Prices of packs that exchange keys in one of these ways; for `KeyExchange::none`, these.
  /// @pre ways() contains `exchange`, or it is `none`.
  [[nodiscard]] const Prices& by(KeyExchange exchange) const {
    if (by_way_.empty() || exchange == KeyExchange::none) return *this;
    return by_way_[static_cast<std::size_t>(std::find(ways_.begin(), ways_.end(), exchange) - ways_.begin())];
  }

  /// What tells the attention of packs; null where no attention model was given. To be cloned for use.
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
    return operations_->slice(model_.get(), stage, begin, end, pass);
  }

  /// The same summed over all stages: the work that packs are balanced by.
  [[nodiscard]] double pipeline_seconds(Tokens begin, Tokens end, Pass pass) const {
    if (polynomial_) return totals_[index(pass)].seconds(begin, end);
    return operations_->pipeline(model_.get(), begin, end, pass);
  }

  /// Adds a slice's time on each stage to `seconds`. @pre seconds.size() == stages().
  void add_slice_seconds(Tokens begin, Tokens end, Pass pass, std::span<double> seconds) const {
    if (!polynomial_) return operations_->add_slice(model_.get(), begin, end, pass, seconds.data());
    SliceSums sums;
    sums.add(begin, end);
    for (std::size_t s = 0; s < stages_; ++s) seconds[s] += rates_[index(pass)][s].seconds(sums);
  }

  /// Adds the time of whole samples on each stage to `seconds`. @pre seconds.size() == stages().
  void add_sample_seconds(std::span<const Tokens> lengths, Pass pass, std::span<double> seconds) const {
    if (!polynomial_) {
      for (const Tokens length : lengths) add_slice_seconds(0, length, pass, seconds);
      return;
    }
    SliceSums sums;
    for (const Tokens length : lengths) sums.add(0, length);
    for (std::size_t s = 0; s < stages_; ++s) seconds[s] += rates_[index(pass)][s].seconds(sums);
  }

  /// The constant of a pack with tokens on a stage, the launch of attention included.
  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const { return pack_[index(pass)][stage]; }

  /// From the end of a pack on `stage` (backward: `stage` + 1) until its neighbour may start it.
  [[nodiscard]] double transfer_seconds(std::size_t stage, Tokens tokens, Pass pass) const {
    return operations_->transfer(model_.get(), stage, tokens, pass);
  }
  /// The same for all pairs of neighbours. @param[out] seconds stages() - 1 numbers.
  void transfer_seconds(Tokens tokens, Pass pass, std::span<double> seconds) const {
    operations_->transfers(model_.get(), tokens, pass, seconds.data());
  }

  /// A pack on each stage: the sum over its slices plus the constant of a pack. O(slices + stages) if polynomial, else
  /// O(slices * stages). @param[out] seconds stages() numbers.
  void price_pack(std::span<const Slice> pack, Pass pass, std::span<double> seconds) const {
    price_slices(pack, pass, seconds);
  }
  /// The same where one layer's attention takes `layer` seconds on the slowest rank. @pre attention() is not null.
  void price_pack(std::span<const Slice> pack, Pass pass, double layer, std::span<double> seconds) const {
    const SliceSums sums = price_slices(pack, pass, seconds);
    const double more = layer - launch_[index(pass)] - least_[index(pass)] * sums.twice_pairs;
    for (std::size_t s = 0; s < stages_; ++s) seconds[s] += more * weights_[index(pass)][s];
  }

  /// One layer of each stage, a pack computed again in the backward pass, its constant included.
  /// @param[out] seconds stages() numbers. @pre recomputes().
  void price_recompute(std::span<const Slice> pack, std::span<double> seconds) const {
    std::copy(pack_again_.begin(), pack_again_.end(), seconds.begin());
    if (polynomial_) return add_sums(sums_of(pack), again_, seconds);
    for (const Slice& slice : pack) {
      for (std::size_t s = 0; s < stages_; ++s)
        seconds[s] += operations_->recompute(model_.get(), s, slice.begin, slice.end);
    }
  }
  /// The same where that layer's attention takes `layer` seconds on the slowest rank, forward.
  void price_recompute(std::span<const Slice> pack, double layer, std::span<double> seconds) const {
    price_recompute(pack, seconds);
    const double more = layer - launch_[0] - least_[0] * sums_of(pack).twice_pairs;
    for (std::size_t s = 0; s < stages_; ++s) seconds[s] += weight_again_ * more;
  }

  /// Attention of all stages when one layer's takes `layer` seconds; zero if the model can't tell it from the rest.
  [[nodiscard]] double pipeline_attention_seconds(double layer, Pass pass) const {
    return layer * weight_sums_[index(pass)];
  }
  /// Attention that `pipeline_seconds` holds: its best rate, shared equally. @pre attention() is not null.
  [[nodiscard]] double least_attention_seconds(Tokens begin, Tokens end, Pass pass) const {
    return pipeline_attention_seconds(least_[index(pass)] * twice_causal_pairs(begin, end), pass);
  }

  /// Whether the model prices recomputation.
  [[nodiscard]] bool recomputes() const { return operations_->recompute != nullptr; }

  /// Whether `group` pipelines can run a pack together.
  [[nodiscard]] bool merges(std::size_t group) const {
    return group == 1 || (operations_->merges != nullptr &&
                          operations_->merges(model_.get(), static_cast<std::int32_t>(group)));
  }

  /// Prices on each of `group` pipelines that run packs together. @pre merges(group).
  [[nodiscard]] Prices merged(std::size_t group) const {
    if (group == 1) return *this;
    Prices out = operations_->merged(model_.get(), static_cast<std::int32_t>(group), ranks_);
    if (attention_) out.attach(attention_);
    return out;
  }

 private:
  struct Operations {
    double (*slice)(const void*, std::size_t, Tokens, Tokens, Pass);
    double (*pipeline)(const void*, Tokens, Tokens, Pass);
    void (*add_slice)(const void*, Tokens, Tokens, Pass, double*);
    double (*transfer)(const void*, std::size_t, Tokens, Pass);
    void (*transfers)(const void*, Tokens, Pass, double*);
    double (*recompute)(const void*, std::size_t, Tokens, Tokens);  ///< null: not priced
    bool (*merges)(const void*, std::int32_t);                      ///< null: never
    Prices (*merged)(const void*, std::int32_t, std::int32_t);
  };

  [[nodiscard]] static constexpr std::size_t index(Pass pass) { return pass == Pass::forward ? 0 : 1; }

  template <class C>
  [[nodiscard]] static const C& as(const void* model) {
    return *static_cast<const C*>(model);
  }

  template <class C>
  static double pipeline_of(const void* model, Tokens begin, Tokens end, Pass pass) {
    if constexpr (requires(const C& c) { c.pipeline_seconds(begin, end, pass); })
      return as<C>(model).pipeline_seconds(begin, end, pass);
    double sum = 0.0;
    for (std::size_t s = 0; s < as<C>(model).stages(); ++s)
      sum += as<C>(model).slice_seconds(s, begin, end, pass);
    return sum;
  }

  template <class C>
  static void add_slice_of(const void* model, Tokens begin, Tokens end, Pass pass, double* seconds) {
    if constexpr (requires(const C& c) { c.add_slice_seconds(begin, end, pass, std::span<double>()); })
      return as<C>(model).add_slice_seconds(begin, end, pass, {seconds, as<C>(model).stages()});
    for (std::size_t s = 0; s < as<C>(model).stages(); ++s)
      seconds[s] += as<C>(model).slice_seconds(s, begin, end, pass);
  }

  template <class C>
  static void transfers_of(const void* model, Tokens tokens, Pass pass, double* seconds) {
    for (std::size_t s = 0; s + 1 < as<C>(model).stages(); ++s)
      seconds[s] = as<C>(model).transfer_seconds(s, tokens, pass);
  }

  template <class C>
  static constexpr Operations make_operations() {
    Operations out{
        [](const void* m, std::size_t stage, Tokens begin, Tokens end, Pass pass) {
          return double{as<C>(m).slice_seconds(stage, begin, end, pass)};
        },
        &pipeline_of<C>,
        &add_slice_of<C>,
        [](const void* m, std::size_t stage, Tokens tokens, Pass pass) {
          return double{as<C>(m).transfer_seconds(stage, tokens, pass)};
        },
        &transfers_of<C>,
        nullptr,
        nullptr,
        nullptr,
    };
    if constexpr (RecomputingCostModel<C>) {
      out.recompute = [](const void* m, std::size_t stage, Tokens begin, Tokens end) {
        return double{as<C>(m).recompute_seconds(stage, begin, end)};
      };
    }
    if constexpr (MergeableCostModel<C>) {
      out.merges = [](const void* m, std::int32_t group) {
        return bool{as<C>(m).supports_context_parallel(group)};
      };
      out.merged = [](const void* m, std::int32_t group, std::int32_t ranks) {
        return Prices(C(as<C>(m).with_context_parallel(group)), group * ranks);
      };
    }
    return out;
  }

  template <class C>
  static constexpr Operations operations_of = make_operations<C>();

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
  SliceSums price_slices(std::span<const Slice> pack, Pass pass, std::span<double> seconds) const {
    for (std::size_t s = 0; s < stages_; ++s) seconds[s] = pack_[index(pass)][s];
    const SliceSums sums = sums_of(pack);
    if (polynomial_) {
      add_sums(sums, rates_[index(pass)], seconds);
    } else {
      for (const Slice& slice : pack) add_slice_seconds(slice.begin, slice.end, pass, seconds);
    }
    return sums;
  }

  /// Attention of each stage per second of one layer; none that the model can tell from the rest.
  template <class C>
  void find_weights(const C& model) {
    for (auto& weights : weights_) weights.assign(stages_, 0.0);
    if constexpr (SeparableCostModel<C>) {
      weight_again_ = 1.0;
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        for (std::size_t s = 0; s < stages_; ++s)
          weights_[index(pass)][s] = model.attention_seconds(s, pass, 1.0);
      }
      for (std::size_t p = 0; p < 2; ++p)
        weight_sums_[p] = std::accumulate(weights_[p].begin(), weights_[p].end(), 0.0);
    }
  }

  /// Prices of each way to exchange.
  template <class C>
  void find_ways(const C& model) {
    if (ranks_ == 1) return;
    const ExchangeSet set = model.exchanges();
    for (const KeyExchange e : key_exchanges) {
      if (!set.contains(e)) continue;
      ways_.push_back(e);
      if (set.size() > 1) by_way_.emplace_back(C(model.with_exchange(e)), ranks_);
    }
  }

  void attach(const std::shared_ptr<const PackAttention>& attention) {
    attention_ = attention;
    const AttentionSeconds least = attention->least_seconds_per_twice_pair(),
                           launch = attention->launch_seconds();
    least_ = {least.forward / ranks_, least.backward / ranks_};
    launch_ = {launch.forward, launch.backward};
    for (std::size_t p = 0; p < 2; ++p) {
      for (std::size_t s = 0; s < stages_; ++s) pack_[p][s] += launch_[p] * weights_[p][s];
    }
    for (double& again : pack_again_) again += weight_again_ * launch_[0];
    for (Prices& way : by_way_) way.attach(attention);
  }

  template <class C>
  void tabulate(const C& model) {
    polynomial_ = true;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (std::size_t s = 0; s < stages_; ++s) {
        rates_[index(pass)].push_back(model.coefficients(s, pass));
        totals_[index(pass)] += rates_[index(pass)].back();
      }
    }
    if constexpr (RecomputingCostModel<C>) {
      for (std::size_t s = 0; s < stages_; ++s) again_.push_back(model.recompute_coefficients(s));
    }
  }

  std::shared_ptr<const void> model_;
  const Operations* operations_;
  std::size_t stages_ = 0;
  double sync_seconds_ = 0.0;
  bool polynomial_ = false;
  std::int32_t ranks_ = 1;
  std::shared_ptr<const PackAttention> attention_;
  std::array<double, 2> least_{}, launch_{};  // [pass] attention of one layer: per unit of twice_causal_pairs; of a pack
  std::vector<double> weights_[2];            // [pass][stage] attention of the stage per second of one layer
  std::array<double, 2> weight_sums_{};       // of all stages
  double weight_again_ = 0.0;                 // the same of one layer computed again
  std::vector<KeyExchange> ways_;
  std::vector<Prices> by_way_;               // [place in ways_]; empty if there is one
  std::vector<double> pack_[2];              // [pass][stage]
  std::vector<double> pack_again_;           // [stage] constant of one layer computed again
  std::vector<SliceCoefficients> rates_[2];  // [pass][stage], if polynomial
  std::vector<SliceCoefficients> again_;     // [stage]
  SliceCoefficients totals_[2];
};

/// Prices of packs by the number of pipelines that run them together. Made when they are first asked for.
class GroupPrices {
 public:
  explicit GroupPrices(Prices alone) { known_.push_back(std::make_unique<const Prices>(std::move(alone))); }

  [[nodiscard]] const Prices& alone() const { return *known_.front(); }
  [[nodiscard]] bool allows(std::size_t group) const { return alone().merges(group); }
  /// The largest group that was asked for.
  [[nodiscard]] std::size_t largest() const { return known_.size(); }

  /// @pre allows(group).
  [[nodiscard]] const Prices& of(std::size_t group) {
    if (known_.size() < group) known_.resize(group);
    std::unique_ptr<const Prices>& prices = known_[group - 1];
    if (!prices) prices = std::make_unique<const Prices>(alone().merged(group));
    return *prices;
  }

 private:
  std::vector<std::unique_ptr<const Prices>> known_;  // [group size - 1]
};

/// Seconds of slices in one pass over all stages: what packs are cut by.
class SlicePrices {
 public:
  /// @param prices has to outlive this.
  SlicePrices(const Prices& prices, Pass pass) : prices_(&prices), pass_(pass) {}

  [[nodiscard]] Pass pass() const { return pass_; }
  /// Whether `coefficients` are the whole price of a slice.
  [[nodiscard]] bool polynomial() const { return prices_->polynomial(); }
  [[nodiscard]] const SliceCoefficients& coefficients() const {
    return prices_->pipeline_coefficients(pass_);
  }
  /// Whether parts of a sample cost as much as the whole.
  [[nodiscard]] bool additive() const { return polynomial() && coefficients().splits_for_free(); }
  [[nodiscard]] double operator()(Tokens begin, Tokens end) const {
    return prices_->pipeline_seconds(begin, end, pass_);
  }

 private:
  const Prices* prices_;
  Pass pass_;
};

/// Adds the work of whole samples, both passes, to `seconds`, one number per stage; no pack's constants.
/// O(samples + stages) if the prices are polynomial, else O(samples * stages).
inline void add_sample_seconds(const Prices& prices, std::span<const Tokens> lengths,
                               std::span<double> seconds) {
  for (const Pass pass : {Pass::forward, Pass::backward}) prices.add_sample_seconds(lengths, pass, seconds);
}

}  // namespace slimpack
