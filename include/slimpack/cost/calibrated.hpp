#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/communication.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/cost/quadratic.hpp"
#include "slimpack/model/parallel.hpp"

namespace slimpack {

/// Choices of the calibrated model that the hardware leaves open.
struct CalibratedOptions {
  ContextExchange exchange = ContextExchange::cheapest;
  double sync_overlap =
      0.0;               ///< share of the gradient synchronisation hidden behind the backward pass, [0, 1]
  double offload = 0.0;  ///< share of the activations moved to host memory and back, [0, 1]
};

/// Analytic model of time (SlimPack, section 5.1): FLOPs over achieved rates, separately for dense products
/// and attention and for each pass; memory-bound operators; the output head on the last stage; tensor- and
/// context-parallel communication; recomputation of whole layers. A CostModel and a SeparableCostModel;
/// without context parallelism also a QuadraticCostModel.
class CalibratedCost {
 public:
  /// @throws InvalidInput if the job or an option is impossible.
  explicit CalibratedCost(Job job, CalibratedOptions options = {}) : job_(std::move(job)), options_(options) {
    validate(job_);
    require(options.sync_overlap >= 0 && options.sync_overlap <= 1, "sync_overlap is ", options.sync_overlap,
            "; expected a share in [0, 1]");
    require(options.offload >= 0 && options.offload <= 1, "offload is ", options.offload,
            "; expected a share in [0, 1]");
    layers_ = split_layers(job_.model.layers, job_.layout.pp);
    recompute_.assign(layers_.size(), 0);
    tabulate();
  }

  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] std::size_t stages() const { return layers_.size(); }
  [[nodiscard]] std::span<const std::int32_t> layers() const { return layers_; }

  /// Time of `[begin, end)` on a stage, in seconds. O(1).
  [[nodiscard]] double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    const double pairs = twice_causal_pairs(begin, end);
    const double compute = coefficients(stage, pass).seconds_of_sums(end - begin, pairs);
    return job_.layout.cp == 1
               ? compute
               : compute + exchange_seconds(layers_[stage], recompute_[stage], begin, end, pairs, pass);
  }

  /// Adds `slice_seconds` of every stage to `seconds`, one number per stage. Communication is priced once.
  void add_slice_seconds(Tokens begin, Tokens end, Pass pass, std::span<double> seconds) const {
    const double pairs = twice_causal_pairs(begin, end);
    const auto tokens = static_cast<double>(end - begin);
    double exchange = 0.0, again = 0.0;
    if (job_.layout.cp > 1) {
      exchange = layer_exchange_seconds(begin, end, pairs, pass);
      if (pass == Pass::backward && total_recompute_ > 0)
        again = layer_exchange_seconds(begin, end, pairs, Pass::forward);
    }
    const double* const per_token = rates_[index(pass)].per_token.data();
    const double* const per_twice_pair = rates_[index(pass)].per_twice_pair.data();
    for (std::size_t s = 0; s < seconds.size(); ++s) {
      const double compute = per_token[s] * tokens + per_twice_pair[s] * pairs;
      seconds[s] = (seconds[s] + compute) + (layers_[s] * exchange + recompute_[s] * again);
    }
  }

  /// `slice_seconds` without attention: dense products, memory-bound operators and communication (Wl of
  /// WLB-LLM's Eq. 2).
  [[nodiscard]] double other_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    return slice_seconds(stage, begin, end, pass) -
           coefficients(stage, pass).per_twice_pair * twice_causal_pairs(begin, end);
  }

  /// Attention of a stage whose layers' kernel takes `forward` and `backward` seconds for one layer; the
  /// backward pass runs the layers that are recomputed forward again.
  [[nodiscard]] double attention_seconds(std::size_t stage, Pass pass, double forward,
                                         double backward) const {
    if (pass == Pass::forward) return layers_[stage] * forward;
    return layers_[stage] * backward + recompute_[stage] * forward;
  }

  [[nodiscard]] double pack_seconds(std::size_t, Pass) const { return job_.device.pack_overhead; }

  /// Hidden states of a pack (or their gradients) to the neighbouring stage.
  [[nodiscard]] double transfer_seconds(Tokens tokens, Pass) const {
    const double bytes = static_cast<double>(tokens) * bytes_per_bf16 * job_.model.hidden;
    return job_.device.inter_node.seconds(bytes / (double(job_.layout.tp) * job_.layout.cp));
  }

  /// Sum of `slice_seconds` over all stages. O(1).
  [[nodiscard]] double pipeline_seconds(Tokens begin, Tokens end, Pass pass) const {
    const double pairs = twice_causal_pairs(begin, end);
    const double compute = pipeline_coefficients(pass).seconds_of_sums(end - begin, pairs);
    if (job_.layout.cp == 1) return compute;
    return compute + exchange_seconds(job_.model.layers, total_recompute_, begin, end, pairs, pass);
  }

  /// Sum of `coefficients` over all stages.
  [[nodiscard]] const SliceCoefficients& pipeline_coefficients(Pass pass) const {
    return totals_[index(pass)];
  }

  /// Time that is polynomial in a slice's bounds: everything but context-parallel communication.
  [[nodiscard]] SliceCoefficients coefficients(std::size_t stage, Pass pass) const {
    const StageCoefficients& rates = rates_[index(pass)];
    return {rates.per_token[stage], rates.per_twice_pair[stage]};
  }

  /// Whether `coefficients` is the whole time of a slice.
  [[nodiscard]] bool is_quadratic() const { return job_.layout.cp == 1; }

  /// The same model with `layers[stage]` layers of each stage computed again in the backward pass.
  [[nodiscard]] CalibratedCost with_recompute(std::span<const std::int32_t> layers) const {
    require_recompute(layers, layers_);
    CalibratedCost copy = *this;
    copy.recompute_.assign(layers.begin(), layers.end());
    copy.tabulate();
    return copy;
  }

  /// Whether `group` times the layout's context parallelism can be had with the exchange that was asked for.
  [[nodiscard]] bool supports_context_parallel(std::int32_t group) const {
    return options_.exchange != ContextExchange::ulysses ||
           ulysses_possible(job_.model, job_.layout.tp, job_.layout.cp * group);
  }

  /// The same model for packs that `group` pipelines run together, each on its share (DP-Merge).
  [[nodiscard]] CalibratedCost with_context_parallel(std::int32_t group) const {
    require(group > 0, "context-parallel group is ", group, "; expected a positive number");
    CalibratedCost copy = *this;
    copy.job_.layout.cp *= group;
    copy.tabulate();
    return copy;
  }

  /// Gradient reduction, gathering of updated parameters and the sharded optimiser's own step, on the slowest
  /// stage. Ring collectives over all replicas; gradients in fp32, parameters in bf16.
  [[nodiscard]] double sync_seconds() const {
    double slowest = 0.0;
    for (std::size_t s = 0; s < stages(); ++s) slowest = std::max(slowest, stage_parameters(job_, s));
    const double ranks = double(job_.layout.dp) * job_.layout.cp;
    const double gradient_and_parameter_bytes = 4.0 + 2.0, optimiser_bytes = 4.0 + 2.0 * 12.0 + 2.0;
    const double exchange = slowest * gradient_and_parameter_bytes * (ranks - 1) / ranks /
                            group_link(job_.device, job_.layout.tp * std::int64_t(ranks)).bandwidth;
    return exchange * (1.0 - options_.sync_overlap) +
           slowest / ranks * optimiser_bytes / job_.device.memory_bandwidth;
  }

 private:
  struct LayerSeconds {
    double per_token;
    double per_twice_pair;
  };

  /// FLOP/s that dense products achieve on a device.
  [[nodiscard]] double gemm_flops(Pass pass) const {
    const Device& d = job_.device;
    return d.peak_flops * (pass == Pass::forward ? d.gemm_efficiency : d.gemm_backward_efficiency);
  }

  /// One layer on one device. Memory-bound operators read and write twice as many numbers in the backward
  /// pass.
  [[nodiscard]] LayerSeconds layer_seconds(Pass pass) const {
    const Transformer& m = job_.model;
    const Device& d = job_.device;
    const double ranks = double(job_.layout.tp) * job_.layout.cp;
    const bool forward = pass == Pass::forward;
    const double gemm =
        linear_flops_per_token(m) * (forward ? 1.0 : backward_linear_ratio) / (gemm_flops(pass) * ranks);
    const double streamed =
        streamed_numbers_per_token(m) * bytes_per_bf16 * (forward ? 1.0 : 2.0) / (d.memory_bandwidth * ranks);
    const double attention = attention_flops_per_twice_pair(m) * (forward ? 1.0 : backward_attention_ratio) /
                             (d.peak_flops * (forward ? d.attention_forward : d.attention_backward) * ranks);
    return {gemm + streamed + tensor_parallel_seconds(job_, pass), attention};
  }

  /// Final norm, logits and loss per token: a dense product of width `vocab`, and passes over fp32 logits.
  [[nodiscard]] double head_seconds(Pass pass) const {
    const Device& d = job_.device;
    const double ranks = double(job_.layout.tp) * job_.layout.cp;
    const double flops = 2.0 * job_.model.hidden * job_.model.vocab * (pass == Pass::forward ? 1.0 : 2.0);
    const double logit_bytes = 8.0 * job_.model.vocab;
    return (flops / gemm_flops(pass) + logit_bytes / d.memory_bandwidth) / ranks;
  }

  /// Host transfers overlap with dense compute; what is left over per token and layer.
  [[nodiscard]] double exposed_offload(double layer_compute) const {
    const double bytes = options_.offload * saved_layer_bytes_per_token(job_.model) /
                         (double(job_.layout.tp) * job_.layout.cp);
    return std::max(0.0, bytes / job_.device.host.bandwidth - layer_compute);
  }

  void tabulate() {
    require(options_.exchange != ContextExchange::ulysses || supports_context_parallel(1),
            "Ulysses over tp * cp = ", job_.layout.tp * job_.layout.cp, " ranks; expected a divisor of the ",
            job_.model.heads, " heads");
    for (StageCoefficients& rates : rates_) rates.resize(stages());
    const LayerSeconds forward = layer_seconds(Pass::forward), backward = layer_seconds(Pass::backward);
    for (std::size_t s = 0; s < stages(); ++s) {
      const bool last = s + 1 == stages();
      const double n = layers_[s], again = recompute_[s];
      rates_[0].set(s, {n * (forward.per_token + exposed_offload(forward.per_token)) +
                            (last ? head_seconds(Pass::forward) : 0.0),
                        n * forward.per_twice_pair});
      rates_[1].set(s, {n * (backward.per_token + exposed_offload(backward.per_token)) +
                            again * forward.per_token + (last ? head_seconds(Pass::backward) : 0.0),
                        n * backward.per_twice_pair + again * forward.per_twice_pair});
    }
    total_recompute_ = std::accumulate(recompute_.begin(), recompute_.end(), 0.0);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      totals_[index(pass)] = {};
      for (std::size_t s = 0; s < stages(); ++s) totals_[index(pass)] += coefficients(s, pass);
      exchange_[index(pass)] = {context_parallel_rates(job_, options_.exchange, pass),
                                layer_seconds(pass).per_twice_pair};
    }
  }

  [[nodiscard]] static constexpr std::size_t index(Pass pass) { return pass == Pass::forward ? 0 : 1; }

  /// Context-parallel communication of `n` layers, of which `again` also run forward again.
  [[nodiscard]] double exchange_seconds(double n, double again, Tokens begin, Tokens end, double twice_pairs,
                                        Pass pass) const {
    const double seconds = n * layer_exchange_seconds(begin, end, twice_pairs, pass);
    if (pass == Pass::forward || again == 0.0) return seconds;
    return seconds + again * layer_exchange_seconds(begin, end, twice_pairs, Pass::forward);
  }
  [[nodiscard]] double layer_exchange_seconds(Tokens begin, Tokens end, double twice_pairs, Pass pass) const {
    const Exchange& e = exchange_[index(pass)];
    return e.rates.seconds(begin, end, e.attention_per_twice_pair * twice_pairs);
  }

  /// `coefficients` of all stages, side by side.
  struct StageCoefficients {
    std::vector<double> per_token, per_twice_pair;

    void resize(std::size_t stages) {
      per_token.resize(stages);
      per_twice_pair.resize(stages);
    }
    void set(std::size_t s, const SliceCoefficients& c) {
      per_token[s] = c.per_token;
      per_twice_pair[s] = c.per_twice_pair;
    }
  };

  struct Exchange {
    ContextParallelRates rates;
    double attention_per_twice_pair = 0.0;
  };

  Job job_;
  CalibratedOptions options_;
  std::vector<std::int32_t> layers_;
  std::vector<std::int32_t> recompute_;
  std::array<StageCoefficients, 2> rates_;  // [forward, backward]
  std::array<SliceCoefficients, 2> totals_;
  double total_recompute_ = 0.0;
  std::array<Exchange, 2> exchange_;  // one layer: [forward, backward]
};

}  // namespace slimpack
