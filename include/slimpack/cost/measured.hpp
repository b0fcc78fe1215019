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
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/communication.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/profile.hpp"
#include "slimpack/model/transformer.hpp"

namespace slimpack {

/// What a profile leaves open: how pipelines work together.
struct MeasuredOptions {
  std::int32_t replicas = 1;    ///< pipelines that exchange gradients
  bool shard_optimiser = true;  ///< each replica updates its share of the weights (ZeRO-1)
  ContextExchange exchange = ContextExchange::ring;  ///< of merged packs: ring or ulysses
};

/// Time by a machine's profile: a CostModel that recomputes and merges, and a QuadraticCostModel where slices cost
/// neither a constant nor a price per key. Stages are single devices. Of merged packs each member computes its share of
/// tokens and pairs. In a ring it meets all keys, and passes keys and values on (backward: their gradients as well);
/// by heads (Ulysses) it has its heads' keys, and exchanges heads for tokens before attention and back behind it.
/// Messages go over the profile's link, while their sender does not compute.
class MeasuredCost {
 public:
  /// @param model of the same layers as the profile's; any number of them. @param layers held by each stage.
  /// @throws InvalidInput if the profile or the model is impossible, the profile is of other layers, or the stages'
  /// layers are not the model's.
  MeasuredCost(Profile profile, const Transformer& model, std::span<const std::int32_t> layers,
               MeasuredOptions options = {})
      : options_(options), layers_(layers.begin(), layers.end()), recompute_(layers.size(), 0) {
    validate(model);
    validate(profile);
    require_same_layers(profile, model);
    profile.model = model;
    profile_ = std::make_shared<const Profile>(std::move(profile));
    require(options.exchange == ContextExchange::ring || options.exchange == ContextExchange::ulysses,
            "the exchange is ", options.exchange == ContextExchange::cheapest ? "cheapest" : "all-gather",
            "; expected ring or ulysses, as the back end has one way");
    require(options.replicas > 0, "replicas is ", options.replicas, "; expected a positive number");
    require(!layers_.empty(), "there are no stages; expected at least one");
    std::int64_t sum = 0;
    for (std::size_t s = 0; s < layers_.size(); ++s) {
      require(layers_[s] >= 0, "stage ", s, " has ", layers_[s], " layers; expected none or more");
      sum += layers_[s];
    }
    require(sum == model.layers, "the stages hold ", sum, " layers; expected the ", model.layers,
            " of model '", model.name, "'");
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

  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const {
    return rates(stage, pass).per_pack;
  }

  /// Hidden states of a pack's tokens (or their gradients) to the neighbouring stage; of a merged one, each member's
  /// share.
  [[nodiscard]] double transfer_seconds(Tokens tokens, Pass) const {
    return profile_->transfer.seconds(static_cast<double>(tokens) * profile_->model.hidden *
                                      profile_->real_bytes / group_);
  }

  /// Sum of `slice_seconds` over all stages. O(1).
  [[nodiscard]] double pipeline_seconds(Tokens begin, Tokens end, Pass pass) const {
    return totals_[index(pass)].slice_seconds(begin, end);
  }

  [[nodiscard]] SliceCoefficients coefficients(std::size_t stage, Pass pass) const {
    return polynomial(rates(stage, pass));
  }

  /// Sum of `coefficients` over all stages.
  [[nodiscard]] const SliceCoefficients& pipeline_coefficients(Pass pass) const {
    return polynomials_[index(pass)];
  }

  /// Whether `coefficients` is the whole time of a slice.
  [[nodiscard]] bool is_quadratic() const { return totals_[0].is_quadratic() && totals_[1].is_quadratic(); }

  /// The same model with `layers[stage]` layers of each stage computed again in the backward pass.
  /// @throws InvalidInput if a stage has fewer layers, or another number of stages is given.
  [[nodiscard]] MeasuredCost with_recompute(std::span<const std::int32_t> layers) const {
    require_recompute(layers, layers_);
    MeasuredCost copy = *this;
    copy.recompute_.assign(layers.begin(), layers.end());
    copy.tabulate();
    return copy;
  }

  /// Whether pipelines can be merged in groups of this size.
  [[nodiscard]] bool supports_context_parallel(std::int32_t group) const {
    return group > 0 &&
           (!by_heads() || profile_->model.kv_heads % (group * static_cast<std::int32_t>(group_)) == 0);
  }

  /// The same model for packs that `group` times as many pipelines run together, each on its share (DP-Merge).
  /// @throws InvalidInput if that is not supported.
  [[nodiscard]] MeasuredCost with_context_parallel(std::int32_t group) const {
    require(group > 0, "context-parallel group is ", group, "; expected a positive number");
    require(supports_context_parallel(group), "context-parallel group is ", group * group_,
            "; expected a divisor of the ", profile_->model.kv_heads, " key/value heads of model '",
            profile_->model.name, "', which members share");
    MeasuredCost copy = *this;
    copy.group_ *= group;
    copy.tabulate();
    return copy;
  }

  /// Exchange of gradients and weights among the replicas in a ring, and the optimiser's step, on the slowest stage.
  [[nodiscard]] double sync_seconds() const {
    double most = 0.0;
    for (std::size_t s = 0; s < stages(); ++s) most = std::max(most, stage_weights(s));
    const double replicas = options_.replicas;
    const double own = options_.shard_optimiser ? most / replicas : most;
    const double rounds = 2.0 * (replicas - 1.0);
    return rounds * profile_->transfer.seconds(most / replicas * profile_->weight_bytes()) +
           own * profile_->optimiser_seconds_per_parameter;
  }

 private:
  [[nodiscard]] static constexpr std::size_t index(Pass pass) { return pass == Pass::forward ? 0 : 1; }
  [[nodiscard]] static constexpr SliceCoefficients polynomial(const PackRates& r) {
    return {r.per_token, r.per_twice_pair};
  }

  [[nodiscard]] double stage_weights(std::size_t s) const {
    const Transformer& model = profile_->model;
    const double ends = embedding_parameters(model);
    return layers_[s] * layer_parameters(model) + (s == 0 ? ends : 0.0) +
           (s + 1 == stages() ? ends + model.hidden : 0.0);
  }

  [[nodiscard]] bool by_heads() const { return options_.exchange == ContextExchange::ulysses; }

  /// Attention of one layer among members: in a pass, or in a forward pass that is computed again.
  enum class Exchange : std::uint8_t { forward, backward, again };

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
  /// log-sum-exp, and back the gradients of queries, keys and values. One by one. What is computed again has its keys.
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

  [[nodiscard]] PackRates stage_rates(std::size_t s, Pass pass) const {
    const PassRates& of = profile_->of(pass);
    const double layers = layers_[s], again = pass == Pass::backward ? recompute_[s] : 0.0;
    PackRates sum = of.stage;
    sum += layers * of.layer;
    sum += again * profile_->recompute;
    if (s == 0) sum += of.first;
    if (s + 1 == stages()) sum += of.last;
    sum.per_token /= group_;
    sum.per_twice_pair /= group_;
    if (by_heads()) sum.per_key /= group_;
    sum += layers * exchange(pass == Pass::forward ? Exchange::forward : Exchange::backward);
    sum += again * exchange(Exchange::again);
    return sum;
  }

  void tabulate() {
    table_.assign(2 * stages(), {});
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      PackRates& total = totals_[index(pass)];
      total = {};
      for (std::size_t s = 0; s < stages(); ++s) {
        table_[2 * s + index(pass)] = stage_rates(s, pass);
        total += rates(s, pass);
      }
      polynomials_[index(pass)] = polynomial(total);
    }
  }

  std::shared_ptr<const Profile> profile_;  // never changed: planners copy cost models often
  MeasuredOptions options_;
  std::vector<std::int32_t> layers_, recompute_;
  double group_ = 1.0;            // members of each pack
  std::vector<PackRates> table_;  // [stage][forward, backward]
  std::array<PackRates, 2> totals_;
  std::array<SliceCoefficients, 2> polynomials_;
};

}  // namespace slimpack
