#pragma once

#include <cstddef>
#include <utility>
#include <variant>

#include "kernels/cuda/cuda_stage.hpp"
#include "kernels/cuda/stage_memory.hpp"
#include "kernels/model/memory.hpp"

namespace slimpack::command {

/// What stages on GPUs hold. Also known without a CUDA toolkit.
using CudaMemory = kernels::BackEndMemory<kernels::cuda::DeviceSizes<kernels::cuda::CudaDevice>>;

/// What stages are asked to do. @param by_heads whether members of merged packs share heads, not a ring.
/// @param limit_bytes that a stage may use.
[[nodiscard]] inline kernels::StageOptions stage_options(bool gpu, bool by_heads, double limit_bytes) {
  kernels::StageOptions stage{
      .merged = by_heads ? kernels::MergedAttention::heads : kernels::MergedAttention::ring,
      .limit_bytes = limit_bytes};
  if (gpu) stage.head_chunk_tokens = stage.ring_tokens = 2048;  // a GPU wants large products, and few merges
  return stage;
}

/// Memory of ranks of the CPU's or the GPU's back end. A MemoryModel that knows what members of merged packs exchange.
class RankMemory {
 public:
  RankMemory(kernels::CpuMemory memory) : memory_(std::move(memory)) {}
  RankMemory(CudaMemory memory) : memory_(std::move(memory)) {}

  [[nodiscard]] double capacity_bytes() const {
    return std::visit([](const auto& m) { return m.capacity_bytes(); }, memory_);
  }
  [[nodiscard]] double static_bytes(std::size_t stage) const {
    return std::visit([&](const auto& m) { return m.static_bytes(stage); }, memory_);
  }
  [[nodiscard]] double activation_bytes(std::size_t stage, int recompute_layers) const {
    return std::visit([&](const auto& m) { return m.activation_bytes(stage, recompute_layers); }, memory_);
  }
  [[nodiscard]] double kv_gradient_bytes(std::size_t stage) const {
    return std::visit([&](const auto& m) { return m.kv_gradient_bytes(stage); }, memory_);
  }
  [[nodiscard]] double workspace_bytes(std::size_t stage, Pass pass, Tokens tokens, int recompute) const {
    return std::visit([&](const auto& m) { return m.workspace_bytes(stage, pass, tokens, recompute); },
                      memory_);
  }
  [[nodiscard]] double exchange_bytes(std::size_t stage, Pass pass, Tokens tokens, std::size_t members,
                                      KeyExchange exchange) const {
    return std::visit([&](const auto& m) { return m.exchange_bytes(stage, pass, tokens, members, exchange); },
                      memory_);
  }

 private:
  std::variant<kernels::CpuMemory, CudaMemory> memory_;
};

}  // namespace slimpack::command
