#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/calibrated_options.hpp"
#include "slimpack/cost/communication.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/cost/links.hpp"
#include "slimpack/cost/polynomial.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/sharding/attention_model.hpp"

namespace slimpack {

/// What one layer takes on one device of a pipeline, per token or pair of tokens, in seconds: dense products, memory-bound
/// operators, attention, tensor parallelism, the prefix of a slice and the exchange of keys. `CalibratedCost` adds layers up.
class LayerRates {
 public:
  /// @throws InvalidInput if a part of the job or an option is impossible.
  LayerRates(Transformer model, Device device, const PipelineSpec& spec, const CalibratedOptions& options)
      : model_(std::move(model)),
        device_(std::move(device)),
        options_(options),
        tp_(spec.tp),
        cp_(spec.cp),
        ranks_in_node_(spec.cp) {
    validate(model_);
    validate(device_);
    validate(spec, model_);
    require_options();
    find_links(spec);
    require_exchange();
  }

  [[nodiscard]] const Transformer& model() const { return model_; }
  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] const CalibratedOptions& options() const { return options_; }

  /// Context-parallel ranks of a pack, members of a merged one included.
  [[nodiscard]] std::int32_t context_ranks() const { return cp_; }
  /// Ranks that share a stage.
  [[nodiscard]] double ranks() const { return double(tp_) * cp_; }

  /// Dense products, memory-bound operators and tensor parallelism on a stage, per token.
  [[nodiscard]] double token_seconds(std::size_t stage, Pass pass) const {
    return dense_seconds(pass) + streamed_seconds(pass) + tensor_seconds(stage, pass);
  }

  /// Attention per unit of `twice_causal_pairs`.
  [[nodiscard]] double twice_pair_seconds(Pass pass) const {
    const bool forward = pass == Pass::forward;
    if (attention_) return (forward ? attention_->forward : attention_->backward) / cp_;
    return attention_flops_per_twice_pair(model_) * (forward ? 1.0 : backward_attention_ratio) /
           (device_.peak_flops * (forward ? device_.attention_forward : device_.attention_backward) *
            ranks());
  }

  /// All of the layer on a stage, but for what depends on the exchange of keys.
  [[nodiscard]] SliceCoefficients coefficients(std::size_t stage, Pass pass) const {
    SliceCoefficients layer{.per_token = token_seconds(stage, pass),
                            .per_twice_pair = twice_pair_seconds(pass)};
    if (cp_ == 1) layer += per_prefix_key(prefix_seconds(tp_, pass));
    return layer;
  }

  /// What depends on it: the exchange itself, and how much of the prefix each rank reads.
  [[nodiscard]] CheapestExchange exchange(Pass pass) const {
    CheapestExchange cheapest;
    for (const KeyExchange e : key_exchanges) {
      if (cp_ == 1 || !exchanges().contains(e)) continue;
      ExchangeRates rates = exchange_rates(model_, tp_, cp_, link_of(e), e, pass);
      rates.hidden *= options_.ring_overlap;
      rates.per_prefix = prefix_seconds(e == KeyExchange::all_to_all ? tp_ * cp_ : tp_, pass);
      cheapest.add(rates);
    }
    return cheapest;
  }

  /// What the output head takes per token: final norm, logits and loss, which are a dense product of width `vocab`, and passes
  /// over fp32 logits.
  [[nodiscard]] double head_seconds(Pass pass) const {
    const double flops = 2.0 * model_.hidden * model_.vocab * (pass == Pass::forward ? 1.0 : 2.0);
    const double logit_bytes = 8.0 * model_.vocab;
    return (flops / gemm_flops(pass) + logit_bytes / device_.memory_bandwidth) / ranks();
  }

  /// What moving `share` of the layer's activations to the host or back takes per token, beyond the compute that hides it.
  [[nodiscard]] double exposed_offload(double share, std::size_t stage, Pass pass) const {
    return exposed(share * saved_layer_bytes_per_token(model_) / ranks(), stage, pass);
  }

  /// What the rest of the layer's activations, except keys and values, adds to that.
  [[nodiscard]] double rest_of_offload(double share, std::size_t stage, Pass pass) const {
    const double all = saved_layer_bytes_per_token(model_) / ranks(),
                 key_values = kv_bytes_per_token(model_, tp_) / cp_;
    const double moved = share * all, rest = (1.0 - share) * (all - key_values);
    return exposed(moved + rest, stage, pass) - exposed(moved, stage, pass);
  }

  /// Hidden states of a pack (or their gradients) between a stage and the next.
  [[nodiscard]] double transfer_seconds(std::size_t stage, Tokens tokens) const {
    const double bytes = static_cast<double>(tokens) * bytes_per_bf16 * model_.hidden;
    return stage_links_[stage].seconds(bytes / ranks());
  }

  /// Ways to exchange keys that are allowed and possible.
  [[nodiscard]] ExchangeSet exchanges() const { return exchanges_of(1); }
  /// The same for packs that `group` pipelines run together.
  [[nodiscard]] ExchangeSet exchanges_of(std::int32_t group) const {
    return possible_exchanges(model_, tp_, cp_ * group, options_.exchanges);
  }

  /// Takes attention's times from elsewhere. @param per_twice_pair of one context-parallel rank; ranks share it equally.
  void set_attention(const AttentionSeconds& per_twice_pair) { attention_ = per_twice_pair; }

  /// Lets `group` pipelines run each pack together. Their devices are taken to follow this pipeline's on each stage; of
  /// several stages, the one that has the fewest ranks in a node counts. O(stages).
  /// @throws InvalidInput if no exchange is possible.
  void merge(std::int32_t group) {
    require(group > 0, "context-parallel group is ", group, "; expected a positive number");
    cp_ *= group;
    if (group > 1) {
      ranks_in_node_ = cp_;
      for (const DeviceId first : first_devices_)
        ranks_in_node_ = std::min(ranks_in_node_, least_in_node(device_, first, tp_, cp_));
      exchange_link_ = ranks_in_node_ < cp_ ? device_.inter_node : device_.intra_node;
    }
    require_exchange();
  }

  /// Allows one exchange alone. @throws InvalidInput if it is not allowed or not possible.
  void set_exchange(KeyExchange exchange) {
    require(options_.exchanges.contains(exchange), "the exchange is ", exchange_name(exchange), "; expected ",
            exchange_names(options_.exchanges));
    options_.exchanges = {exchange};
    require_exchange();
  }

 private:
  void require_options() const {
    const auto share = [](const char* name, double value) {
      require(value >= 0.0 && value <= 1.0, name, " is ", value, "; expected a share in [0, 1]");
    };
    share("tp_overlap", options_.tp_overlap);
    share("ring_overlap", options_.ring_overlap);
    share("offload", options_.offload);
    require(options_.kv_gradient_element_bytes > 0.0 && options_.kv_gradient_element_bytes <= 8.0,
            "kv_gradient_element_bytes is ", options_.kv_gradient_element_bytes,
            "; expected more than 0 and at most 8");
  }

  void require_exchange() const {
    require(!exchanges().empty(), "keys may be exchanged by ", exchange_names(options_.exchanges),
            " over tp * cp = ", std::int64_t{tp_} * cp_, " ranks; expected a divisor of the ", model_.heads,
            " heads, or another exchange");
  }

  void find_links(const PipelineSpec& spec) {
    SlowestLink exchange;
    for (std::size_t s = 0; s < spec.stages(); ++s) {
      first_devices_.push_back(spec.devices[s].front());
      tensor_links_.push_back(tensor_link(device_, spec, s));
      exchange.add(context_link(device_, spec, s));
      for (std::int32_t rank = 0; rank < tp_; ++rank) {
        std::vector<DeviceId> ranks;
        add_context_ranks(spec, s, rank, ranks);
        ranks_in_node_ = std::min(ranks_in_node_, least_in_node(device_, ranks));
      }
      if (s + 1 < spec.stages()) stage_links_.push_back(stage_link(device_, spec, s));
    }
    exchange_link_ = exchange.or_else(device_.intra_node);
  }

  /// FLOP/s that dense products achieve on a device.
  [[nodiscard]] double gemm_flops(Pass pass) const {
    return device_.peak_flops *
           (pass == Pass::forward ? device_.gemm_efficiency : device_.gemm_backward_efficiency);
  }

  /// Dense products per token.
  [[nodiscard]] double dense_seconds(Pass pass) const {
    return linear_flops_per_token(model_) * (pass == Pass::forward ? 1.0 : backward_linear_ratio) /
           (gemm_flops(pass) * ranks());
  }

  /// Memory-bound operators per token: they read and write twice as many numbers in the backward pass.
  [[nodiscard]] double streamed_seconds(Pass pass) const {
    return streamed_numbers_per_token(model_) * bytes_per_bf16 * (pass == Pass::forward ? 1.0 : 2.0) /
           (device_.memory_bandwidth * ranks());
  }

  /// Tensor parallelism per token, as far as dense products don't hide it.
  [[nodiscard]] double tensor_seconds(std::size_t stage, Pass pass) const {
    const double all = tensor_parallel_seconds(model_, tp_, cp_, tensor_links_[stage], pass);
    return all - std::min(options_.tp_overlap * all, dense_seconds(pass));
  }

  /// Memory traffic per token of a slice's prefix, on a rank that has the heads of `1 / shares` of the model. Never above
  /// what a token of the slice takes, so that longer slices take longer.
  [[nodiscard]] double prefix_seconds(std::int32_t shares, Pass pass) const {
    if (!options_.prefix) return 0.0;
    const double bytes =
        prefix_bytes(kv_bytes_per_token(model_, shares), options_.kv_gradient_element_bytes, pass);
    return std::min(bytes / device_.memory_bandwidth, dense_seconds(pass) + streamed_seconds(pass));
  }

  /// Transfers to and from the host overlap with the layer's compute; what is left of one of so many bytes.
  [[nodiscard]] double exposed(double bytes, std::size_t stage, Pass pass) const {
    return std::max(0.0, bytes / device_.host.bandwidth - token_seconds(stage, pass));
  }

  [[nodiscard]] Link link_of(KeyExchange exchange) const {
    const bool by_node = options_.all_to_all_by_node && exchange == KeyExchange::all_to_all;
    return by_node && ranks_in_node_ < cp_ ? all_to_all_link(device_, cp_, ranks_in_node_) : exchange_link_;
  }

  Transformer model_;
  Device device_;
  CalibratedOptions options_;
  std::int32_t tp_, cp_;
  std::int32_t ranks_in_node_;                 // the fewest context ranks that a node has
  std::vector<DeviceId> first_devices_;        // [stage]
  std::vector<Link> tensor_links_;             // [stage]
  std::vector<Link> stage_links_;              // [stage], to the next one
  Link exchange_link_;                         // of context ranks; of several stages, the slowest
  std::optional<AttentionSeconds> attention_;  // on one context rank, if it was given
};

}  // namespace slimpack
