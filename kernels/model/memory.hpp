#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/math/attention.hpp"
#include "kernels/model/layout.hpp"
#include "kernels/model/stage_options.hpp"
#include "kernels/model/weights.hpp"
#include "kernels/model/workspace.hpp"
#include "slimpack/core/ids.hpp"

namespace slimpack::kernels {

/// What the stages of a `CpuStage` pipeline hold, for planners and the simulator. A MemoryModel that knows what members
/// of merged packs exchange. Bytes are exact but for cuts that pages of keys and values leave out, for members whose
/// shares of a pack differ, and for factors that wait for weight tasks.
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

  /// Weights, gradients and moments, and attention's blocks.
  [[nodiscard]] double static_bytes(std::size_t stage) const {
    const StagePart& part = parts_[stage];
    return bytes_ * ((2.0 + moments_) * weight_count(part) +
                     static_cast<double>(Attention<float>::workspace_numbers(part.heads())));
  }

  [[nodiscard]] double activation_bytes(std::size_t stage, int recompute_layers) const {
    const auto kept = ActivationLayout(parts_[stage]).size(static_cast<std::size_t>(recompute_layers));
    return bytes_ * static_cast<double>(kept) + kv_gradient_bytes(stage);
  }

  [[nodiscard]] double kv_gradient_bytes(std::size_t stage) const {
    return bytes_ * static_cast<double>(parts_[stage].layer_count() * 2 * parts_[stage].heads().kv_width());
  }

  [[nodiscard]] double workspace_bytes(std::size_t stage, Pass pass, Tokens tokens, int) const {
    const auto n = static_cast<std::size_t>(tokens);
    const std::size_t chunk = options_.head_chunk_tokens;
    return bytes_ * static_cast<double>(bytes_ == sizeof(float)
                                            ? workspace_numbers<float>(parts_[stage], chunk, pass, n)
                                            : workspace_numbers<double>(parts_[stage], chunk, pass, n));
  }

  /// In a ring, what comes and what goes of a window's keys and values, in backward with their gradients. By heads, the
  /// whole pack's queries and outputs of this member's heads, in backward with their gradients, and the messages of one
  /// of them.
  [[nodiscard]] double exchange_bytes(std::size_t stage, Pass pass, Tokens tokens,
                                      std::size_t members) const {
    const HeadShape heads = parts_[stage].heads();
    const auto query = static_cast<double>(heads.query_width()), key = static_cast<double>(heads.kv_width());
    const auto each = static_cast<double>(heads.heads);
    const double share = static_cast<double>(tokens) / static_cast<double>(members);
    if (pass == Pass::weight) return 0.0;
    const bool forward = pass == Pass::forward;
    if (options_.merged == MergedAttention::ring)
      return bytes_ * static_cast<double>(options_.ring_tokens) * (forward ? 4.0 : 8.0) * key;
    return bytes_ * share * (forward ? 4.0 * query + 2.0 * each : 6.0 * query + each);
  }

 private:
  std::vector<StagePart> parts_;
  StageOptions options_;
  double bytes_, moments_;
};

}  // namespace slimpack::kernels
