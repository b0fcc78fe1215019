#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/communication.hpp"
#include "slimpack/model/parallel.hpp"

namespace slimpack {

struct MemoryOptions {
  int zero_stage = 1;               ///< 0: nothing sharded; 1: optimiser; 2: and gradients; 3: and parameters
  double reserve_bytes = 6e9;       ///< runtime, communication buffers, fragmentation
  double offload = 0.0;             ///< share of the activations kept in host memory, [0, 1]
  Tokens head_chunk_tokens = 4096;  ///< tokens whose logits exist at a time
  double kv_gradient_element_bytes = 2.0;  ///< bf16 accumulation; 4 for fp32
  /// Whether context-parallel ranks gather keys and values of whole packs, one layer's at a time
  /// (`ContextExchange::all_gather`).
  bool gathers_keys = false;
};

/// Analytic memory of a stage's device: bf16 parameters, fp32 gradients, Adam's fp32 copy and two moments;
/// activations per token and layer as flash attention keeps them; keys and values that outlive recomputation.
/// A MemoryModel (SlimPack, section 4.3.3).
class TransformerMemory {
 public:
  /// @throws InvalidInput if the job or an option is impossible.
  explicit TransformerMemory(Job job, MemoryOptions options = {}) : job_(std::move(job)), options_(options) {
    validate(job_);
    require(options.zero_stage >= 0 && options.zero_stage <= 3, "zero_stage is ", options.zero_stage,
            "; expected 0 to 3");
    require(options.offload >= 0 && options.offload <= 1, "offload is ", options.offload,
            "; expected a share in [0, 1]");
    require(options.head_chunk_tokens > 0, "head_chunk_tokens is ", options.head_chunk_tokens,
            "; expected a positive number");
    require(options.reserve_bytes >= 0 && options.kv_gradient_element_bytes > 0, "reserve_bytes is ",
            options.reserve_bytes, " and kv_gradient_element_bytes ", options.kv_gradient_element_bytes,
            "; expected no negative bytes");
    layers_ = split_layers(job_.model.layers, job_.layout.pp);
  }

  [[nodiscard]] double capacity_bytes() const { return job_.device.memory_bytes; }

  /// Parameters, gradients, optimiser states and the reserve.
  [[nodiscard]] double static_bytes(std::size_t stage) const {
    const double ranks = double(job_.layout.dp) * job_.layout.cp;
    const auto share = [&](int stage_that_shards) {
      return options_.zero_stage >= stage_that_shards ? 1.0 / ranks : 1.0;
    };
    return stage_parameters(job_, stage) * (2.0 * share(3) + 4.0 * share(2) + 12.0 * share(1)) +
           options_.reserve_bytes;
  }

  /// Per token of a pack, held from forward to backward. A recomputed layer keeps its input, its keys and
  /// values.
  [[nodiscard]] double activation_bytes(std::size_t stage, int recompute_layers) const {
    const double kept = layers_[stage] - recompute_layers;
    return kept * full_layer_bytes() * (1.0 - options_.offload) + recompute_layers * recomputed_layer_bytes();
  }

  /// Per token of a sample whose backward pass has begun: gradients of its keys and values.
  [[nodiscard]] double kv_gradient_bytes(std::size_t stage) const {
    const double elements = kv_bytes_per_token(job_.model, job_.layout.tp) / bytes_per_bf16;
    return layers_[stage] * elements * options_.kv_gradient_element_bytes / job_.layout.cp;
  }

  /// While a pack runs: one layer's working set (a recomputed layer's activations in the backward pass),
  /// two layers in transit to host memory when offloading, other ranks' keys and values (and their gradients)
  /// when these are gathered, and the logits of one chunk on the last stage.
  [[nodiscard]] double workspace_bytes(std::size_t stage, Pass pass, Tokens tokens,
                                       int recompute_layers) const {
    const double n = static_cast<double>(tokens);
    const double hidden = bytes_per_bf16 * job_.model.hidden / ranks_per_pack();
    const double width = bytes_per_bf16 * 2.0 * job_.model.ffn / ranks_per_pack();
    double bytes = n * (2.0 * hidden + width);
    if (pass != Pass::forward && recompute_layers > 0) bytes += n * full_layer_bytes();
    if (options_.offload > 0) bytes += 2.0 * n * options_.offload * full_layer_bytes();
    if (options_.gathers_keys) {
      const double others = 1.0 - 1.0 / job_.layout.cp, gradients = pass == Pass::forward ? 1.0 : 2.0;
      bytes += n * others * gradients * kv_bytes_per_token(job_.model, job_.layout.tp);
    }
    if (stage + 1 == layers_.size()) {
      const double own = n / job_.layout.cp;
      const double chunk = std::min(own, static_cast<double>(options_.head_chunk_tokens));
      bytes += chunk * 6.0 * job_.model.vocab / job_.layout.tp;
    }
    return bytes;
  }

 private:
  [[nodiscard]] double ranks_per_pack() const { return double(job_.layout.tp) * job_.layout.cp; }

  [[nodiscard]] double full_layer_bytes() const {
    return saved_layer_bytes_per_token(job_.model) / ranks_per_pack();
  }

  [[nodiscard]] double recomputed_layer_bytes() const {
    return bytes_per_bf16 * job_.model.hidden / ranks_per_pack() +
           kv_bytes_per_token(job_.model, job_.layout.tp) / job_.layout.cp;
  }

  Job job_;
  MemoryOptions options_;
  std::vector<std::int32_t> layers_;
};

}  // namespace slimpack
