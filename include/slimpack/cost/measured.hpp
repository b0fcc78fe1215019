#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/visible.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/exchange.hpp"
#include "slimpack/cost/polynomial.hpp"
#include "slimpack/cost/profile.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/model/transformer.hpp"

namespace slimpack {

/// What a profile leaves open: how pipelines work together.
struct MeasuredOptions {
  std::int32_t replicas = 1;                 ///< pipelines that exchange gradients
  bool shard_optimiser = true;               ///< each replica updates its share of the weights (ZeRO-1)
  KeyExchange exchange = KeyExchange::ring;  ///< of merged packs: ring or all_to_all
};

/// Time by a machine's profile: a CostModel that recomputes and merges, and a PolynomialCostModel. Each rank of a
/// stage is a member of its packs. Of merged packs each member computes its share of
/// tokens and pairs. In a ring it meets all keys, and passes keys and values on (backward: their gradients as well);
/// by heads (Ulysses) it has its heads' keys, and exchanges heads for tokens before attention and back after it.
/// Messages go over the profile's link, while their sender does not compute.
class MeasuredCost {
 public:
  /// @param model of the same layers as the profile's; any number of them. @param spec without tensor parallelism;
  /// its devices don't matter.
  /// @throws InvalidInput if the profile or the model is impossible, the profile is of other layers, or the pipeline
  /// can't train the model on single devices.
  MeasuredCost(Profile profile, const Transformer& model, const PipelineSpec& spec,
               MeasuredOptions options = {})
      : MeasuredCost(std::move(profile), model, std::span(spec.layers), options) {
    require(spec.tp == 1, "tp is ", spec.tp, "; expected 1, as the profile is of single devices");
    require(spec.cp > 0, "cp is ", spec.cp, "; expected a positive number");
    require_group(spec.cp);
    group_ = ranks_ = spec.cp;
    tabulate();
  }

  /// Of stages on single devices. @param layers held by each stage.
  MeasuredCost(Profile profile, const Transformer& model, std::span<const std::int32_t> layers,
               MeasuredOptions options = {})
      : options_(options), layers_(layers.begin(), layers.end()) {
    validate(model);
    validate(profile);
    require_same_layers(profile, model);
    profile.model = model;
    profile_ = std::make_shared<const Profile>(std::move(profile));
    require(options.exchange == KeyExchange::ring || options.exchange == KeyExchange::all_to_all,
            "the exchange is ", exchange_name(options.exchange), "; expected ring or all_to_all");
    require(options.replicas > 0, "replicas is ", options.replicas, "; expected a positive number");
    require(!layers_.empty(), "there are no stages; expected at least one");
    std::int64_t sum = 0;
    for (std::size_t s = 0; s < layers_.size(); ++s) {
      require(layers_[s] >= 0, "stage ", s, " has ", layers_[s], " layers; expected none or more");
      sum += layers_[s];
    }
    require(sum == model.layers, "the stages hold ", sum, " layers; expected the ", model.layers,
            " of model '", visible(model.name), "'");
    tabulate();
  }

  /// Of this model.
  [[nodiscard]] const Profile& profile() const { return *profile_; }
  [[nodiscard]] std::size_t stages() const { return layers_.size(); }
  [[nodiscard]] std::span<const std::int32_t> layers() const { return layers_; }

  /// All that a pack takes on a stage.
  [[nodiscard]] const PackRates& rates(std::size_t stage, Pass pass) const {
    return table_[2 * stage + index(pass)];
  }

  /// Time of `[begin, end)` on a stage, in seconds. O(1).
  [[nodiscard]] double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    return rates(stage, pass).slice_seconds(begin, end);
  }

  /// What one layer that is recomputed adds to a backward slice `[begin, end)`. O(1).
  [[nodiscard]] double recompute_seconds(std::size_t, Tokens begin, Tokens end) const {
    return recompute_rates_.slice_seconds(begin, end);
  }

  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const {
    return rates(stage, pass).per_pack;
  }
  /// Constant of each layer that a backward pack recomputes.
  [[nodiscard]] double recompute_pack_seconds(std::size_t) const { return recompute_rates_.per_pack; }

  /// Hidden states of a pack's tokens (or their gradients) to the neighbouring stage; of a merged one, each member's
  /// share.
  [[nodiscard]] double transfer_seconds(std::size_t, Tokens tokens, Pass) const {
    return profile_->transfer.seconds(static_cast<double>(tokens) * profile_->model.hidden *
                                      profile_->real_bytes / group_);
  }

  [[nodiscard]] SliceCoefficients coefficients(std::size_t stage, Pass pass) const {
    return polynomial(rates(stage, pass));
  }
  [[nodiscard]] SliceCoefficients recompute_coefficients(std::size_t) const {
    return polynomial(recompute_rates_);
  }
  [[nodiscard]] static constexpr bool is_polynomial() { return true; }

  /// Whether pipelines can be merged in groups of this size.
  [[nodiscard]] bool supports_context_parallel(std::int32_t group) const {
    return group > 0 &&
           (!by_heads() || profile_->model.kv_heads % (group * static_cast<std::int32_t>(group_)) == 0);
  }

  /// The same model for packs that `group` times as many pipelines run together, each on its share (DP-Merge).
  /// @throws InvalidInput if that is not supported.
  [[nodiscard]] MeasuredCost with_context_parallel(std::int32_t group) const {
    require(group > 0, "context-parallel group is ", group, "; expected a positive number");
    require_group(group);
    MeasuredCost copy = *this;
    copy.group_ *= group;
    copy.tabulate();
    return copy;
  }

  /// The way to exchange that the back end has.
  [[nodiscard]] ExchangeSet exchanges() const { return {options_.exchange}; }
  /// The same model. @throws InvalidInput if the back end exchanges in another way.
  [[nodiscard]] MeasuredCost with_exchange(KeyExchange exchange) const {
    require(exchange == options_.exchange, "the exchange is ", exchange_name(exchange), "; expected ",
            exchange_name(options_.exchange));
    return *this;
  }

  /// Exchange of gradients and weights among the replicas in a ring, and the optimiser's step, on the slowest stage.
  [[nodiscard]] double sync_seconds() const {
    double most = 0.0;
    for (std::size_t s = 0; s < stages(); ++s)
      most = std::max(most, stage_parameters(profile_->model, layers_, s));
    const double replicas = options_.replicas * ranks_;
    const double own = options_.shard_optimiser ? most / replicas : most;
    const double rounds = 2.0 * (replicas - 1.0);
    return rounds * profile_->transfer.seconds(most / replicas * profile_->weight_bytes()) +
           own * profile_->optimiser_seconds_per_parameter;
  }

 private:
  [[nodiscard]] static constexpr std::size_t index(Pass pass) { return pass == Pass::forward ? 0 : 1; }
  [[nodiscard]] static constexpr SliceCoefficients polynomial(const PackRates& r) {
    return {r.per_slice, r.per_token, r.per_key, r.per_twice_pair};
  }

  void require_group(std::int32_t group) const {
    require(supports_context_parallel(group), "context-parallel group is ", group * group_,
            "; expected a divisor of the ", profile_->model.kv_heads, " key/value heads of model '",
            visible(profile_->model.name), "', which members share");
  }

  [[nodiscard]] bool by_heads() const { return options_.exchange == KeyExchange::all_to_all; }

  /// Attention of one layer among members: in a pass, or in a recomputed forward pass.
  enum class Exchange : std::uint8_t { forward, backward, recompute };

  /// What it adds to a layer.
  [[nodiscard]] PackRates exchange(Exchange what) const {
    if (group_ == 1.0) return {};
    return by_heads() ? all_to_all(what) : ring(what);
  }

  /// Rounds of messages that hold two numbers (forward) or four for each key, and backward the way home of the
  /// gradients. On GPUs, gradients go home from each round, in float.
  [[nodiscard]] PackRates ring(Exchange what) const {
    const bool forward = what != Exchange::backward;
    const Transformer& m = profile_->model;
    const bool gpu = profile_->device.has_value();
    const double key_bytes = 2.0 * m.kv_heads * m.head_dim * profile_->real_bytes, rounds = group_ - 1.0;
    const double floats = double(profile_->weight_bytes()) / profile_->real_bytes;
    // Times a member's keys and values.
    const double sent = forward ? rounds : gpu ? (1.0 + floats) * rounds : 2.0 * rounds + 1.0;
    const double messages = forward ? rounds : gpu ? 2.0 * rounds : group_;
    return {.per_slice = messages * profile_->transfer.latency,
            .per_key = sent * key_bytes / group_ / profile_->transfer.bandwidth};
  }

  /// Keys, values, queries, and back the output and its log-sum-exp. Backward: queries, output, its gradient and
  /// log-sum-exp, and back the gradients of queries, keys and values. One by one. What is recomputed has its keys.
  /// On GPUs, all that goes one way at once, and a number per head and token instead of the output backward.
  [[nodiscard]] PackRates all_to_all(Exchange what) const {
    const Transformer& m = profile_->model;
    const bool gpu = profile_->device.has_value();
    const double query = double(m.heads) * m.head_dim, keys = 2.0 * m.kv_heads * m.head_dim;
    const double sums = double(m.heads) * profile_->weight_bytes() / profile_->real_bytes;  // floats at least
    const double backward = gpu ? 3.0 * query + keys + 2.0 * sums : 4.0 * query + keys + sums;
    const double numbers = what == Exchange::forward    ? 2.0 * query + keys + sums
                           : what == Exchange::backward ? backward
                                                        : 2.0 * query + sums;
    const double exchanges = gpu                          ? 2.0
                             : what == Exchange::forward  ? 5.0
                             : what == Exchange::backward ? 7.0
                                                          : 3.0;
    const double others = group_ - 1.0;
    return {.per_pack = exchanges * others * profile_->transfer.latency,
            .per_token =
                others / group_ * numbers * profile_->real_bytes / group_ / profile_->transfer.bandwidth};
  }

  /// A member's share of what one device would take.
  [[nodiscard]] PackRates shared(PackRates rates) const {
    rates.per_token /= group_;
    rates.per_twice_pair /= group_;
    if (by_heads()) rates.per_key /= group_;
    return rates;
  }

  [[nodiscard]] PackRates stage_rates(std::size_t s, Pass pass) const {
    const PassRates& of = profile_->of(pass);
    const double layers = layers_[s];
    PackRates sum = of.stage;
    sum += layers * of.layer;
    if (s == 0) sum += of.first;
    if (s + 1 == stages()) sum += of.last;
    sum = shared(sum);
    return sum += layers * exchange(pass == Pass::forward ? Exchange::forward : Exchange::backward);
  }

  void tabulate() {
    table_.assign(2 * stages(), {});
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (std::size_t s = 0; s < stages(); ++s) table_[2 * s + index(pass)] = stage_rates(s, pass);
    }
    recompute_rates_ = shared(profile_->recompute);
    recompute_rates_ += exchange(Exchange::recompute);
  }

  std::shared_ptr<const Profile> profile_;  // never changed: planners copy cost models often
  MeasuredOptions options_;
  std::vector<std::int32_t> layers_;
  double group_ = 1.0;            // members of each pack
  double ranks_ = 1.0;            // of each stage, which are members of every pack
  std::vector<PackRates> table_;  // [stage][forward, backward]
  PackRates recompute_rates_;     // of one layer
};

}  // namespace slimpack
