#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/communication.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/cost/links.hpp"
#include "slimpack/cost/polynomial.hpp"
#include "slimpack/cost/synchronise.hpp"
#include "slimpack/cost/zero3.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/sharding/attention_model.hpp"

namespace slimpack {

/// Choices of the calibrated model that the hardware leaves open.
struct CalibratedOptions {
  /// Ways in which context-parallel ranks may exchange keys; slices take the cheapest one that is possible.
  ExchangeSet exchanges{KeyExchange::ring, KeyExchange::all_to_all};
  /// Share of tensor parallelism's communication that runs while dense products do, [0, 1]; never more than these
  /// last. The default is what Flux measured for both products of an MLP on 8 H800 (81 %; on 8 A800 92 to 95 %:
  /// docs/performance_report.md of bytedance/flux). NVIDIA NeMo hides what has no dependency entirely and the rest in
  /// chunks (Transformer Engine's user buffers). PyTorch's asynchronous tensor parallelism is 9 to 10 % faster on
  /// Llama 3 8B and 70B with tp 8 than none (torchtitan's benchmarks, June 2025), which is a share of about 0.4.
  /// 0: nothing is hidden.
  double tp_overlap = 0.8;
  /// Share of a ring's communication that runs while attention does, [0, 1]; never more than attention lasts. The
  /// default is what Ring Attention is made for: while keys and values move on, each rank computes with those it has.
  /// 0: nothing is hidden.
  double ring_overlap = 1.0;
  /// Whether slices pay for the keys and values of their prefix (`prefix_bytes`). If not, slicing costs no memory traffic: a
  /// way to see how much that matters.
  bool prefix = true;
  SyncOptions sync = {};                   ///< gradients and optimiser at the end of a step
  double offload = 0.0;                    ///< share of the activations moved to host memory and back, [0, 1]
  double kv_gradient_element_bytes = 2.0;  ///< of sums over slices: 2 for bf16, 4 for fp32
  Zero3Options zero3 = {};                 ///< what sharded parameters cost every pack
  /// Whether an all-to-all sends over the network only what leaves a node (`all_to_all_link`); if not, all of it, as the other
  /// exchanges do.
  bool all_to_all_by_node = false;
};

/// Analytic model of time (SlimPack, section 5.1): FLOPs over achieved rates, separately for dense products
/// and attention and for each pass; memory-bound operators; keys, values and their gradients that a slice reads and
/// writes for its prefix (`prefix_bytes`); the output head on the last stage; tensor- and context-parallel
/// communication; recomputed layers. A CostModel that recomputes, merges, separates attention and prices several
/// ways to exchange keys; a PolynomialCostModel as long as nothing hides an exchange.
///
/// Attention's achieved fractions are those of whole samples. What they lose to memory is part of them; a slice pays for
/// its prefix alone, so that a sample costs more in slices than whole, by what it moves more.
class CalibratedCost {
 public:
  /// Of one kind of pipelines of a strategy. @throws InvalidInput if a part of it or an option is impossible.
  CalibratedCost(Transformer model, Device device, const Strategy& strategy, std::uint32_t kind,
                 CalibratedOptions options = {})
      : CalibratedCost(std::move(model), std::move(device), strategy.spec_of_kind(kind), options,
                       Unsynchronised{}) {
    zero3_seconds_ = zero3_seconds(strategy, kind, model_, device_, options.zero3);
    SyncOptions sync = options.sync;
    if (options.zero3.on) sync.zero3 = options.zero3.group;
    sync_seconds_ = slimpack::sync_seconds(strategy, model_, device_, sync);
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
    return totals_[index(pass)].seconds(begin, end) + model_.layers * exchange_seconds(begin, end, pass);
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
    const double share = options_.offload, all = saved_layer_bytes_per_token(model_) / ranks(),
                 key_values = kv_bytes_per_token(model_, tp_) / cp_;
    const double moved = share * all, rest = (1.0 - share) * (all - key_values);
    const double hidden = dense_seconds(pass) + streamed_seconds(pass) + tensor_seconds(stage, pass);
    return static_cast<double>(tokens) *
           (exposed_offload(moved + rest, hidden) - exposed_offload(moved, hidden));
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
    copy.attention_ = per_twice_pair;
    copy.tabulate();
    return copy;
  }

  /// Launches and host work; with ZeRO-3, the communication of parameters and gradients that nothing hides.
  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const {
    return device_.pack_overhead + zero3_seconds_[stage][index(pass)];
  }

  /// Hidden states of a pack (or their gradients) between a stage and the one after it.
  [[nodiscard]] double transfer_seconds(std::size_t stage, Tokens tokens, Pass) const {
    const double bytes = static_cast<double>(tokens) * bytes_per_bf16 * model_.hidden;
    return stage_links_[stage].seconds(bytes / ranks());
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

  /// Whether `group` times the pipeline's context parallelism can be had with an exchange that is allowed.
  [[nodiscard]] bool supports_context_parallel(std::int32_t group) const {
    return group > 0 && !possible_exchanges(model_, tp_, cp_ * group, options_.exchanges).empty();
  }
  /// The same model for packs that `group` pipelines run together, each on its share (DP-Merge). They are taken to
  /// have consecutive devices.
  /// @throws InvalidInput if that is not supported.
  [[nodiscard]] CalibratedCost with_context_parallel(std::int32_t group) const {
    require(group > 0, "context-parallel group is ", group, "; expected a positive number");
    CalibratedCost copy = *this;
    copy.cp_ *= group;
    if (group > 1) copy.ranks_in_node_ = merged_ranks_in_node(copy.cp_);
    if (group > 1) copy.exchange_link_ = group_link(device_, std::int64_t{tp_} * copy.cp_);
    copy.tabulate();
    return copy;
  }

  /// Ways to exchange that are allowed and possible.
  [[nodiscard]] ExchangeSet exchanges() const {
    return possible_exchanges(model_, tp_, cp_, options_.exchanges);
  }
  /// The same model with one way alone. @throws InvalidInput if it is not allowed or not possible.
  [[nodiscard]] CalibratedCost with_exchange(KeyExchange exchange) const {
    require(options_.exchanges.contains(exchange), "the exchange is ", exchange_name(exchange), "; expected ",
            exchange_names(options_.exchanges));
    CalibratedCost copy = *this;
    copy.options_.exchanges = {exchange};
    copy.tabulate();
    return copy;
  }

  /// Gradients, updated parameters and the optimiser of a step, as `slimpack::sync_seconds` prices the strategy.
  [[nodiscard]] double sync_seconds() const { return sync_seconds_; }

 private:
  struct Unsynchronised {};

  CalibratedCost(Transformer model, Device device, const PipelineSpec& spec, const CalibratedOptions& options,
                 Unsynchronised)
      : model_(std::move(model)),
        device_(std::move(device)),
        options_(options),
        layers_(spec.layers),
        tp_(spec.tp),
        cp_(spec.cp),
        ranks_in_node_(spec.cp) {
    validate(model_);
    validate(device_);
    require_pipeline(spec, model_);
    const auto share = [](const char* name, double value) {
      require(value >= 0.0 && value <= 1.0, name, " is ", value, "; expected a share in [0, 1]");
    };
    share("tp_overlap", options.tp_overlap);
    share("ring_overlap", options.ring_overlap);
    share("offload", options.offload);
    require(options.kv_gradient_element_bytes > 0.0 && options.kv_gradient_element_bytes <= 8.0,
            "kv_gradient_element_bytes is ", options.kv_gradient_element_bytes,
            "; expected more than 0 and at most 8");
    SlowestLink exchange;
    for (std::size_t s = 0; s < stages(); ++s) {
      tensor_links_.push_back(tensor_link(device_, spec, s));
      exchange.add(context_link(device_, spec, s));
      for (std::int32_t rank = 0; rank < tp_; ++rank) {
        std::vector<DeviceId> ranks;
        add_context_ranks(spec, s, rank, ranks);
        ranks_in_node_ = std::min(ranks_in_node_, least_in_node(device_, ranks));
      }
      if (s + 1 < stages()) stage_links_.push_back(stage_link(device_, spec, s));
    }
    exchange_link_ = exchange.or_else(device_.intra_node);
    tabulate();
  }

  [[nodiscard]] static constexpr std::size_t index(Pass pass) { return pass == Pass::forward ? 0 : 1; }

  [[nodiscard]] double ranks() const { return double(tp_) * cp_; }

  /// FLOP/s that dense products achieve on a device.
  [[nodiscard]] double gemm_flops(Pass pass) const {
    return device_.peak_flops *
           (pass == Pass::forward ? device_.gemm_efficiency : device_.gemm_backward_efficiency);
  }

  /// Dense products of one layer on one device, per token.
  [[nodiscard]] double dense_seconds(Pass pass) const {
    return linear_flops_per_token(model_) * (pass == Pass::forward ? 1.0 : backward_linear_ratio) /
           (gemm_flops(pass) * ranks());
  }

  /// Memory-bound operators of one layer, per token: they read and write twice as many numbers in the backward pass.
  [[nodiscard]] double streamed_seconds(Pass pass) const {
    return streamed_numbers_per_token(model_) * bytes_per_bf16 * (pass == Pass::forward ? 1.0 : 2.0) /
           (device_.memory_bandwidth * ranks());
  }

  /// Tensor parallelism of one layer, per token, as far as dense products don't hide it.
  [[nodiscard]] double tensor_seconds(std::size_t stage, Pass pass) const {
    const double all = tensor_parallel_seconds(model_, tp_, cp_, tensor_links_[stage], pass);
    return all - std::min(options_.tp_overlap * all, dense_seconds(pass));
  }

  /// Attention of one layer per unit of `twice_causal_pairs`.
  [[nodiscard]] double attention_seconds_per_twice_pair(Pass pass) const {
    const bool forward = pass == Pass::forward;
    if (attention_) return (forward ? attention_->forward : attention_->backward) / cp_;
    return attention_flops_per_twice_pair(model_) * (forward ? 1.0 : backward_attention_ratio) /
           (device_.peak_flops * (forward ? device_.attention_forward : device_.attention_backward) *
            ranks());
  }
  [[nodiscard]] double layer_attention_seconds(Tokens begin, Tokens end, Pass pass) const {
    return pair_seconds_[index(pass)] * twice_causal_pairs(begin, end);
  }

  /// Memory traffic of one layer per token of a slice's prefix, on a rank that has the heads of `1 / shares` of the
  /// model. Never above what a token of the slice takes, so that longer slices take longer.
  [[nodiscard]] double prefix_seconds(std::int32_t shares, Pass pass) const {
    if (!options_.prefix) return 0.0;
    const double bytes =
        prefix_bytes(kv_bytes_per_token(model_, shares), options_.kv_gradient_element_bytes, pass);
    return std::min(bytes / device_.memory_bandwidth, dense_seconds(pass) + streamed_seconds(pass));
  }

  /// Final norm, logits and loss per token: a dense product of width `vocab`, and passes over fp32 logits.
  [[nodiscard]] double head_seconds(Pass pass) const {
    const double flops = 2.0 * model_.hidden * model_.vocab * (pass == Pass::forward ? 1.0 : 2.0);
    const double logit_bytes = 8.0 * model_.vocab;
    return (flops / gemm_flops(pass) + logit_bytes / device_.memory_bandwidth) / ranks();
  }

  /// Host transfers overlap with dense compute; what is left over per token and layer.
  [[nodiscard]] double exposed_offload(double bytes, double layer_compute) const {
    return std::max(0.0, bytes / device_.host.bandwidth - layer_compute);
  }

  /// One layer of a stage without what depends on the exchange of keys.
  [[nodiscard]] SliceCoefficients layer_coefficients(std::size_t stage, Pass pass) const {
    SliceCoefficients layer{
        .per_token = dense_seconds(pass) + streamed_seconds(pass) + tensor_seconds(stage, pass),
        .per_twice_pair = pair_seconds_[index(pass)]};
    if (cp_ == 1) layer += per_prefix_key(prefix_seconds(tp_, pass));
    return layer;
  }

  /// Fewest of `cp` context ranks on consecutive devices that a node has.
  [[nodiscard]] std::int32_t merged_ranks_in_node(std::int32_t cp) const {
    const std::int32_t most = std::max(1, device_.devices_per_node / tp_);
    return cp % most == 0 ? most : cp % most;
  }

  [[nodiscard]] Link link_of(KeyExchange exchange) const {
    const bool by_node = options_.all_to_all_by_node && exchange == KeyExchange::all_to_all;
    return by_node && ranks_in_node_ < cp_ ? all_to_all_link(device_, cp_, ranks_in_node_) : exchange_link_;
  }

  /// What depends on it: the exchange itself, and how much of the prefix each rank reads.
  [[nodiscard]] CheapestExchange exchange_prices(Pass pass) const {
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

  void tabulate() {
    require(!exchanges().empty(), "keys may be exchanged by ", exchange_names(options_.exchanges),
            " over tp * cp = ", std::int64_t{tp_} * cp_, " ranks; expected a divisor of the ", model_.heads,
            " heads, or another exchange");
    recompute_rates_.clear();
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      pair_seconds_[index(pass)] = attention_seconds_per_twice_pair(pass);
      exchange_[index(pass)] = exchange_prices(pass);
      std::vector<SliceCoefficients>& table = table_[index(pass)];
      table.clear();
      for (std::size_t s = 0; s < stages(); ++s) {
        SliceCoefficients layer = layer_coefficients(s, pass);
        if (pass == Pass::forward) recompute_rates_.push_back(layer);
        layer.per_token +=
            exposed_offload(options_.offload * saved_layer_bytes_per_token(model_) / ranks(),
                            dense_seconds(pass) + streamed_seconds(pass) + tensor_seconds(s, pass));
        table.push_back(static_cast<double>(layers_[s]) * layer);
      }
      table.back().per_token += head_seconds(pass);
      totals_[index(pass)] = {};
      for (const SliceCoefficients& stage : table) totals_[index(pass)] += stage;
    }
  }

  /// What depends on the exchange of keys, of one layer.
  [[nodiscard]] double exchange_seconds(Tokens begin, Tokens end, Pass pass) const {
    if (cp_ == 1 || begin == end) return 0.0;
    return exchange_[index(pass)].seconds(begin, end, layer_attention_seconds(begin, end, pass));
  }
  [[nodiscard]] SliceCoefficients exchange_coefficients(Pass pass) const {
    if (cp_ == 1 || !is_polynomial()) return {};
    const ExchangeRates& rates = exchange_[index(pass)].polynomial();
    return SliceCoefficients{.per_token = rates.per_query, .per_key = rates.per_key} +
           per_prefix_key(rates.per_prefix);
  }

  Transformer model_;
  Device device_;
  CalibratedOptions options_;
  std::vector<std::int32_t> layers_;
  std::int32_t tp_, cp_;            // context ranks of each pack, members of a merged one included
  std::int32_t ranks_in_node_;      // the fewest of these ranks that a node has
  std::vector<Link> tensor_links_;  // [stage]
  std::vector<Link> stage_links_;   // [stage], to the one after it
  Link exchange_link_;              // of context ranks; of several stages, the slowest
  std::array<std::vector<SliceCoefficients>, 2> table_;  // [forward, backward][stage]
  std::array<SliceCoefficients, 2> totals_;              // of all stages
  std::vector<SliceCoefficients> recompute_rates_;       // [stage], one layer
  std::optional<AttentionSeconds> attention_;            // of one layer on one context rank, if it was given
  std::array<double, 2> pair_seconds_{};                 // attention of one layer
  std::array<CheapestExchange, 2> exchange_;             // of one layer
  std::vector<std::array<double, 2>> zero3_seconds_;     // [stage][forward, backward], of a pack
  double sync_seconds_ = 0.0;
};

}  // namespace slimpack
