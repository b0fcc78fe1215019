#pragma once

#include <cstddef>

#include "kernels/cuda/arena_plan.hpp"
#include "kernels/cuda/stage_workspace.hpp"
#include "kernels/cuda/task_data.hpp"
#include "kernels/model/memory.hpp"

namespace slimpack::kernels::cuda {

/// Bytes of a stage on a GPU, for `BackEndMemory`. Exact but for what the arena can't fill, rows that come
/// and go of the largest task while a smaller one runs, factors that wait for weight tasks, members whose shares of a pack differ,
/// and what the host tells of rounds in a ring.
/// @tparam D the device; `D::product_workspace` is what its matrix products take.
template <class D>
class DeviceSizes {
 public:
  /// @param weight_bytes 4: weights, gradients and moments are floats.
  DeviceSizes(double weight_bytes, const StageOptions& options, double moments)
      : options_(options), bytes_(weight_bytes), moments_(moments) {}

  [[nodiscard]] double limit() const { return options_.limit_bytes; }

  /// Weights, gradients and moments, the weights that products read, and workspaces of products and of a library's
  /// attention.
  [[nodiscard]] double held(const StagePart& part) const {
    return (bytes_ * (2.0 + moments_) + sizeof(Bf16)) * weight_count(part) +
           static_cast<double>(D::product_workspace + attention_workspace_bytes(options_));
  }
  [[nodiscard]] double kept(const StagePart& part, std::size_t recompute_layers) const {
    return sizeof(Bf16) * static_cast<double>(kept_layout(part).size(recompute_layers));
  }
  [[nodiscard]] double keys_values(const StagePart& part) const {
    return sizeof(Bf16) * static_cast<double>(part.layer_count() * 2 * part.heads().kv_width());
  }
  [[nodiscard]] double kv_gradients(const StagePart& part) const { return 2.0 * keys_values(part); }

  /// With the rows that come and go of two tasks, and what the host tells of their tokens.
  [[nodiscard]] double workspace(const StagePart& part, Pass pass, std::size_t tokens) const {
    if (pass == Pass::weight) return 0.0;
    const double rows = 2.0 * sizeof(Bf16) * static_cast<double>(part.hidden());
    const double data = 2.0 * token_data_bytes(part);
    return static_cast<double>(stage_workspace_bytes(part, options_.head_chunk_tokens, pass, tokens)) +
           static_cast<double>(tokens) * (rows + data);
  }

  /// By heads, the whole pack's queries, keys, values and outputs of this member's heads, in backward with
  /// gradients, and the messages of those that are exchanged at once. In a ring, sums over what comes round,
  /// and three windows of keys and values, in backward with three of their gradients.
  [[nodiscard]] double exchange(const StagePart& part, Pass pass, Tokens tokens, std::size_t members,
                                MergedAttention way) const {
    if (pass == Pass::weight || members < 2) return 0.0;
    const auto all = static_cast<std::size_t>(tokens);
    const MergedTask merged{members, all, way, options_.ring_tokens};
    const std::size_t chunk = options_.head_chunk_tokens, own = all / members;
    return static_cast<double>(stage_workspace_bytes(part, chunk, pass, own, merged)) -
           static_cast<double>(stage_workspace_bytes(part, chunk, pass, own));
  }

 private:
  /// Of a token: some numbers, and the pages of its activations.
  [[nodiscard]] static double token_data_bytes(const StagePart& part) {
    return task_words * sizeof(std::int32_t) + sizeof(std::int32_t) *
                                                   static_cast<double>(kept_layout(part).size(0)) /
                                                   static_cast<double>(unit_numbers(part));
  }

  StageOptions options_;
  double bytes_, moments_;
};

}  // namespace slimpack::kernels::cuda
