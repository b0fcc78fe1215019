#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/communication.hpp"
#include "slimpack/cost/zero3.hpp"
#include "slimpack/model/offload.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/model/strategy.hpp"

namespace slimpack {

struct MemoryOptions {
  int zero_stage = 1;          ///< 0: nothing sharded; 1: optimiser; 2: and gradients; 3: and parameters
  double reserve_bytes = 6e9;  ///< runtime, communication buffers (ZeRO-3's gathered layers), fragmentation
  double offload = 0.0;        ///< share of the activations kept in host memory, [0, 1]
  Tokens head_chunk_tokens = 4096;         ///< tokens whose logits exist at a time
  double kv_gradient_element_bytes = 2.0;  ///< bf16 accumulation; 4 for fp32
  /// Whether context-parallel ranks of one pipeline gather keys and values of whole packs, one layer's at a time, and merged
  /// pipelines where the plan names no exchange (`KeyExchange::all_gather`).
  bool gathers_keys = false;
  ZeroGroup zero_group = ZeroGroup::all;  ///< among whom ZeRO shards; as `Zero3Options::group`
};

/// Analytic memory of a stage's device: bf16 parameters, fp32 gradients, Adam's fp32 copy and two moments;
/// activations per token and layer as flash attention keeps them; keys and values that outlive recomputation.
/// A MemoryModel (SlimPack, section 4.3.3).
class TransformerMemory {
 public:
  /// Of one pipeline. @param replicas pipelines that hold each layer, among which ZeRO shards what it shards.
  /// @throws InvalidInput if the pipeline or an option is impossible.
  TransformerMemory(Transformer model, Device device, const PipelineSpec& spec, std::int32_t replicas,
                    MemoryOptions options = {})
      : model_(std::move(model)),
        device_(std::move(device)),
        options_(options),
        layers_(spec.layers),
        tp_(spec.tp),
        cp_(spec.cp),
        replicas_(replicas) {
    validate(model_);
    validate(device_);
    validate(spec, model_);
    require(replicas > 0, "replicas is ", replicas, "; expected a positive number");
    require(options.zero_stage >= 0 && options.zero_stage <= 3, "zero_stage is ", options.zero_stage,
            "; expected 0 to 3");
    require(options.offload >= 0 && options.offload <= 1, "offload is ", options.offload,
            "; expected a share in [0, 1]");
    require(options.head_chunk_tokens > 0, "head_chunk_tokens is ", options.head_chunk_tokens,
            "; expected a positive number");
    require(options.reserve_bytes >= 0 && options.kv_gradient_element_bytes > 0, "reserve_bytes is ",
            options.reserve_bytes, " and kv_gradient_element_bytes ", options.kv_gradient_element_bytes,
            "; expected no negative bytes");
  }

  /// Of the pipelines of a layout. @throws InvalidInput if the job or an option is impossible.
  explicit TransformerMemory(const Job& job, MemoryOptions options = {})
      : TransformerMemory(job.model, job.device, valid_pipeline(job), job.layout.dp, options) {}

  [[nodiscard]] std::size_t stages() const { return layers_.size(); }
  [[nodiscard]] std::span<const std::int32_t> layers() const { return layers_; }

  [[nodiscard]] double capacity_bytes() const { return device_.memory_bytes; }
  /// What `static_bytes` has for the runtime, communication buffers and fragmentation.
  [[nodiscard]] double reserve_bytes() const { return options_.reserve_bytes; }

  /// Parameters, gradients, optimiser states and the reserve.
  [[nodiscard]] double static_bytes(std::size_t stage) const {
    const double ranks = double(options_.zero_group == ZeroGroup::all ? replicas_ : 1) * cp_;
    const auto share = [&](int stage_that_shards) {
      return options_.zero_stage >= stage_that_shards ? 1.0 / ranks : 1.0;
    };
    return stage_parameters(model_, layers_, stage) / tp_ *
               (2.0 * share(3) + 4.0 * share(2) + 12.0 * share(1)) +
           options_.reserve_bytes;
  }

  /// Per token of a pack, held from forward to backward. A recomputed layer keeps its input, its keys and
  /// values.
  [[nodiscard]] double activation_bytes(std::size_t stage, int recompute_layers) const {
    const double kept = (layers_[stage] - recompute_layers) * full_layer_bytes(),
                 recomputed = recompute_layers * recomputed_layer_bytes();
    return (kept + recomputed) * (1.0 - options_.offload);
  }
  /// The same without layers whose activations wait in the host's memory.
  [[nodiscard]] double activation_bytes(std::size_t stage, int recompute_layers, int offload_layers) const {
    return activation_bytes(stage, recompute_layers) -
           host_bytes(stage, recompute_layers, offload_layers) * (1.0 - options_.offload);
  }
  /// Per token, what waits there of these layers.
  [[nodiscard]] double host_bytes(std::size_t stage, int recompute_layers, int offload_layers) const {
    const LayerRange range = offloaded_layers(layers_[stage], recompute_layers, offload_layers);
    const int inputs = std::max(0, recompute_layers - range.first);
    const double key_values = kv_bytes_per_token(model_, tp_) / cp_;
    return (range.size() - inputs) * (full_layer_bytes() - key_values) +
           inputs * (recomputed_layer_bytes() - key_values);
  }
  /// Two layers on their way.
  [[nodiscard]] double transit_bytes(std::size_t, Tokens tokens) const {
    return 2.0 * static_cast<double>(tokens) * full_layer_bytes();
  }

  /// Per token of a sample whose backward pass has begun: gradients of its keys and values.
  [[nodiscard]] double kv_gradient_bytes(std::size_t stage) const {
    const double elements = kv_bytes_per_token(model_, tp_) / bytes_per_bf16;
    return layers_[stage] * elements * options_.kv_gradient_element_bytes / cp_;
  }

  /// Where keys are gathered: those of the pack's other pipelines, of one layer, and backward their gradients.
  [[nodiscard]] double exchange_bytes(std::size_t, Pass pass, Tokens tokens, std::size_t members,
                                      KeyExchange exchange) const {
    const bool gathers =
        exchange == KeyExchange::all_gather || (exchange == KeyExchange::none && options_.gathers_keys);
    if (!gathers) return 0.0;
    const double others = static_cast<double>(tokens) * (1.0 - 1.0 / static_cast<double>(members));
    return others * (pass == Pass::forward ? 1.0 : 2.0) * kv_bytes_per_token(model_, tp_);
  }

  /// While a pack runs: one layer's working set (a recomputed layer's activations in the backward pass),
  /// two layers in transit to host memory when offloading, other ranks' keys and values (and their gradients)
  /// when these are gathered, and the logits of one chunk on the last stage.
  [[nodiscard]] double workspace_bytes(std::size_t stage, Pass pass, Tokens tokens,
                                       int recompute_layers) const {
    const double n = static_cast<double>(tokens);
    const double hidden = bytes_per_bf16 * model_.hidden / ranks_per_pack();
    const double width = bytes_per_bf16 * 2.0 * model_.ffn / ranks_per_pack();
    double bytes = n * (2.0 * hidden + width);
    if (pass != Pass::forward && recompute_layers > 0) bytes += n * full_layer_bytes();
    if (options_.offload > 0) bytes += 2.0 * n * options_.offload * full_layer_bytes();
    if (options_.gathers_keys) {
      const double others = 1.0 - 1.0 / cp_, gradients = pass == Pass::forward ? 1.0 : 2.0;
      bytes += n * others * gradients * kv_bytes_per_token(model_, tp_);
    }
    if (stage + 1 == layers_.size()) {
      const double own = n / cp_;
      const double chunk = std::min(own, static_cast<double>(options_.head_chunk_tokens));
      bytes += chunk * 6.0 * model_.vocab / tp_;
    }
    return bytes;
  }

 private:
  [[nodiscard]] static PipelineSpec valid_pipeline(const Job& job) {
    validate(job);
    return layout_pipeline(job.model, job.layout, 0);
  }

  [[nodiscard]] double ranks_per_pack() const { return double(tp_) * cp_; }

  [[nodiscard]] double full_layer_bytes() const {
    return saved_layer_bytes_per_token(model_) / ranks_per_pack();
  }

  [[nodiscard]] double recomputed_layer_bytes() const {
    return bytes_per_bf16 * model_.hidden / ranks_per_pack() + kv_bytes_per_token(model_, tp_) / cp_;
  }

  Transformer model_;
  Device device_;
  MemoryOptions options_;
  std::vector<std::int32_t> layers_;
  std::int32_t tp_, cp_, replicas_;
};

}  // namespace slimpack
