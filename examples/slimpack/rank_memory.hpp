#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/model/stage_options.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/model/transformer.hpp"
#include "slimpack/sharding/kind.hpp"
#include "slimpack/sharding/tensor_share.hpp"

namespace slimpack::command {

/// What stages are asked to do. @param by_heads whether members of merged packs share heads, not a ring.
/// @param limit_bytes that a stage may use.
[[nodiscard]] kernels::StageOptions stage_options(bool gpu, bool by_heads, double limit_bytes);

/// Memory of ranks of the CPU's or the GPU's back end. A MemoryModel that knows what members of merged packs exchange.
class RankMemory {
 public:
  /// @param gpu whether ranks run on GPUs; known without a CUDA toolkit as well. Other parameters as those of
  /// `kernels::BackEndMemory`.
  RankMemory(bool gpu, const Transformer& model, std::span<const std::int32_t> layers, double weight_bytes,
             const kernels::StageOptions& stage, double moments, const TensorShare& tensor = {},
             std::size_t context = 1);

  [[nodiscard]] double capacity_bytes() const;
  [[nodiscard]] double static_bytes(std::size_t stage) const;
  [[nodiscard]] double activation_bytes(std::size_t stage, int recompute_layers) const;
  [[nodiscard]] double kv_gradient_bytes(std::size_t stage) const;
  [[nodiscard]] double workspace_bytes(std::size_t stage, Pass pass, Tokens tokens, int recompute) const;
  [[nodiscard]] double exchange_bytes(std::size_t stage, Pass pass, Tokens tokens, std::size_t members,
                                      KeyExchange exchange) const;

 private:
  // In the source alone: the back ends' headers are more than all others that the command reads.
  struct BackEnd;
  std::shared_ptr<const BackEnd> back_end_;
};

}  // namespace slimpack::command
