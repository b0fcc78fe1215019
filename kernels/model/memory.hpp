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
#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"

namespace slimpack::kernels {

/// What the stages of a pipeline hold, for planners and the simulator: a MemoryModel that knows what members of merged
/// packs exchange. Back ends differ in what things take. Of a pipeline with context parallelism it says what each of its
/// ranks holds, which are members of all its packs.
/// @tparam Sizes bytes of things, of a stage or of a token: `limit()`, `held(part)`, `kept(part, recompute_layers)`,
/// `keys_values(part)`, `kv_gradients(part)`, `workspace(part, pass, tokens)`, `exchange(part, pass, tokens, members, way)`; of
/// a back end that offloads `offloaded(part, recompute_layers, offload_layers)`.
template <class Sizes>
class BackEndMemory {
 public:
  static constexpr bool offloads = requires(const Sizes& sizes, const StagePart& part) {
    sizes.offloaded(part, 0U, 0U);
  };

  /// @param layers held by each stage. @param weight_bytes of a weight, as `StageBackEnd` says. @param moments of the
  /// optimiser that this rank keeps for each of its parameters: 2, or 2 / ranks where they are sharded. @param tensor of the
  /// stage's tensor-parallel ranks, the one that is meant. @param context ranks of a stage that share each pack's tokens.
  BackEndMemory(const Transformer& model, std::span<const std::int32_t> layers, double weight_bytes,
                const StageOptions& options = {}, double moments = 2.0, const TensorShare& tensor = {},
                std::size_t context = 1)
      : sizes_(weight_bytes, options, moments), merged_(options.merged), context_(context) {
    require(context > 0, "context is ", context, "; expected a positive number of ranks");
    std::int32_t first = 0;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      parts_.push_back({model, first, layers[s], s == 0, s + 1 == layers.size(), tensor});
      first += layers[s];
    }
  }

  [[nodiscard]] double capacity_bytes() const { return sizes_.limit(); }
  [[nodiscard]] double static_bytes(std::size_t stage) const { return sizes_.held(parts_[stage]); }
  [[nodiscard]] double activation_bytes(std::size_t stage, int recompute_layers) const {
    return of_rank(sizes_.kept(parts_[stage], static_cast<std::size_t>(recompute_layers)) +
                   sizes_.keys_values(parts_[stage]));
  }
  [[nodiscard]] double activation_bytes(std::size_t stage, int recompute_layers,
                                        int offload_layers) const requires offloads {
    return activation_bytes(stage, recompute_layers) - host_bytes(stage, recompute_layers, offload_layers);
  }
  [[nodiscard]] double host_bytes(std::size_t stage, int recompute_layers,
                                  int offload_layers) const requires offloads {
    return of_rank(sizes_.offloaded(parts_[stage], static_cast<std::size_t>(recompute_layers),
                                    static_cast<std::size_t>(offload_layers)));
  }
  /// None: a task's workspace is written to the host's memory and read from there.
  [[nodiscard]] double transit_bytes(std::size_t, Tokens) const requires offloads { return 0.0; }
  [[nodiscard]] double kv_gradient_bytes(std::size_t stage) const {
    return of_rank(sizes_.kv_gradients(parts_[stage]));
  }
  /// Includes what context ranks exchange.
  [[nodiscard]] double workspace_bytes(std::size_t stage, Pass pass, Tokens tokens, int) const {
    const std::size_t own = (static_cast<std::size_t>(tokens) + context_ - 1) / context_;
    return sizes_.workspace(parts_[stage], pass, own) +
           (context_ > 1 ? exchanged(stage, pass, tokens, 1, merged_) : 0.0);
  }
  /// By the exchange that a plan names; the back end refuses those that it does not have.
  [[nodiscard]] double exchange_bytes(std::size_t stage, Pass pass, Tokens tokens, std::size_t members,
                                      KeyExchange exchange) const {
    const MergedAttention way = merged_attention(exchange, merged_).value_or(merged_);
    const double all = exchanged(stage, pass, tokens, members, way);
    if (context_ == 1) return all;
    // Workspace has what the ranks of one pipeline exchange, at least what they need for a pack without tokens.
    return std::max(0.0, all - exchanged(stage, pass, 0, 1, merged_));
  }

 private:
  /// A context rank's share of a token's bytes.
  [[nodiscard]] double of_rank(double bytes) const { return bytes / static_cast<double>(context_); }

  /// What a rank of one of `members` pipelines exchanges.
  [[nodiscard]] double exchanged(std::size_t stage, Pass pass, Tokens tokens, std::size_t members,
                                 MergedAttention way) const {
    return sizes_.exchange(parts_[stage], pass, tokens, members * context_, way);
  }

  std::vector<StagePart> parts_;
  Sizes sizes_;
  MergedAttention merged_;
  std::size_t context_;
};

/// Of a `CpuStage`. Bytes are exact but for cuts that pages of keys and values leave out, for members and tensor-parallel ranks whose
/// shares of a pack differ, and for factors that wait for weight tasks. They are too many where no sample of a ring fills a window.
class CpuSizes {
 public:
  /// @param real_bytes 4 for float, 8 for double.
  CpuSizes(double real_bytes, const StageOptions& options, double moments)
      : options_(options), bytes_(real_bytes), moments_(moments) {}

  [[nodiscard]] double limit() const { return options_.limit_bytes; }

  /// Weights, gradients and moments, and attention's blocks.
  [[nodiscard]] double held(const StagePart& part) const {
    return bytes_ * ((2.0 + moments_) * weight_count(part) +
                     static_cast<double>(Attention<float>::workspace_numbers(part.heads())));
  }

  [[nodiscard]] double kept(const StagePart& part, std::size_t recompute_layers) const {
    return per_token(part, [&](const ActivationLayout& layout) { return layout.size(recompute_layers); });
  }

  [[nodiscard]] double offloaded(const StagePart& part, std::size_t recompute_layers,
                                 std::size_t offload_layers) const {
    return per_token(part, [&](const ActivationLayout& layout) {
      return layout.size(layout.offloaded(recompute_layers, offload_layers), recompute_layers);
    });
  }

  [[nodiscard]] double keys_values(const StagePart& part) const {
    return bytes_ * static_cast<double>(part.layer_count() * 2 * part.heads().kv_width());
  }
  [[nodiscard]] double kv_gradients(const StagePart& part) const { return keys_values(part); }

  [[nodiscard]] double workspace(const StagePart& part, Pass pass, std::size_t tokens) const {
    const std::size_t chunk = options_.head_chunk_tokens, ranks = part.tensor.size;
    const std::size_t rows = (tokens + ranks - 1) / ranks;
    return bytes_ * static_cast<double>(bytes_ == sizeof(float)
                                            ? workspace_numbers<float>(part, chunk, pass, tokens, rows)
                                            : workspace_numbers<double>(part, chunk, pass, tokens, rows));
  }

  /// In a ring, what comes and what goes of a window's keys and values, in backward with their gradients. By heads, the
  /// whole pack's queries and outputs of this member's heads, in backward with their gradients, and the messages of one
  /// of them.
  [[nodiscard]] double exchange(const StagePart& part, Pass pass, Tokens tokens, std::size_t members,
                                MergedAttention way) const {
    const HeadShape heads = part.heads();
    const auto query = static_cast<double>(heads.query_width()), key = static_cast<double>(heads.kv_width());
    const auto each = static_cast<double>(heads.heads);
    const double share = static_cast<double>(tokens) / static_cast<double>(members);
    if (pass == Pass::weight) return 0.0;
    const bool forward = pass == Pass::forward;
    if (way == MergedAttention::ring)
      return bytes_ * static_cast<double>(options_.ring_tokens) * (forward ? 4.0 : 8.0) * key;
    return bytes_ * share * (forward ? 4.0 * query + 2.0 * each : 6.0 * query + each);
  }

 private:
  /// Bytes of a token, whose residual stream one of the tensor-parallel ranks has.
  template <class F>
  [[nodiscard]] double per_token(const StagePart& part, F&& numbers) const {
    const std::size_t ranks = part.tensor.size;
    return bytes_ * static_cast<double>(numbers(ActivationLayout(part).of(ranks, 1))) /
           static_cast<double>(ranks);
  }

  StageOptions options_;
  double bytes_, moments_;
};

using CpuMemory = BackEndMemory<CpuSizes>;

}  // namespace slimpack::kernels
