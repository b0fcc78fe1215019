#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/model/layout.hpp"
#include "kernels/model/stage.hpp"
#include "slimpack/core/ids.hpp"

namespace slimpack::kernels {

/// Numbers of a `CpuStage`'s workspace while a task of `tokens` owned tokens runs.
[[nodiscard]] inline std::size_t workspace_numbers(const StagePart& part, const StageOptions& options,
                                                   Pass pass, std::size_t tokens) {
  const HeadShape heads = part.heads();
  const std::size_t query = heads.query_width(), qkv = query + 2 * heads.kv_width();
  const std::size_t forward = 2 * part.hidden() + qkv + query + 2 * heads.heads + 3 * part.ffn();
  const std::size_t backward = 5 * part.hidden() + qkv + 3 * query + 2 * heads.heads + 4 * part.ffn();
  const std::size_t logits = part.last ? std::min(tokens, options.head_chunk_tokens) * part.vocab() : 0;
  return tokens * (pass == Pass::forward    ? forward
                   : pass == Pass::backward ? backward
                                            : 0) +
         (pass == Pass::weight ? 0 : logits);
}

/// What the stages of a `CpuStage` pipeline hold, for planners and the simulator. A MemoryModel. Bytes are
/// exact but for pages of keys and values, which round a sample's tokens up, for what members of merged packs
/// exchange, and for factors that wait for weight tasks.
class CpuMemory {
 public:
  /// @param layers held by each stage. @param real_bytes 4 for float, 8 for double. @param moments of the
  /// optimiser that this rank keeps for each of its parameters: 2, or 2 / ranks where they are sharded.
  CpuMemory(const Transformer& model, std::span<const std::int32_t> layers, double real_bytes,
            const StageOptions& options = {}, double moments = 2.0)
      : options_(options), bytes_(real_bytes), moments_(moments) {
    std::int32_t first = 0;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      parts_.push_back({model, first, layers[s], s == 0, s + 1 == layers.size()});
      first += layers[s];
    }
  }

  [[nodiscard]] double capacity_bytes() const { return options_.limit_bytes; }

  /// Weights, gradients and moments.
  [[nodiscard]] double static_bytes(std::size_t stage) const {
    return bytes_ * (2.0 + moments_) * weight_count(parts_[stage]);
  }

  [[nodiscard]] double activation_bytes(std::size_t stage, int recompute_layers) const {
    const auto kept = ActivationLayout(parts_[stage]).size(static_cast<std::size_t>(recompute_layers));
    return bytes_ * static_cast<double>(kept) + kv_gradient_bytes(stage);
  }

  [[nodiscard]] double kv_gradient_bytes(std::size_t stage) const {
    return bytes_ * static_cast<double>(parts_[stage].layer_count() * 2 * parts_[stage].heads().kv_width());
  }

  [[nodiscard]] double workspace_bytes(std::size_t stage, Pass pass, Tokens tokens, int) const {
    return bytes_ * static_cast<double>(
                        workspace_numbers(parts_[stage], options_, pass, static_cast<std::size_t>(tokens)));
  }

 private:
  std::vector<StagePart> parts_;
  StageOptions options_;
  double bytes_, moments_;
};

}  // namespace slimpack::kernels
