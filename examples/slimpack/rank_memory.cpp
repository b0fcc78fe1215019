#include "rank_memory.hpp"

#include <variant>

#include "kernels/cuda/cuda_stage.hpp"
#include "kernels/cuda/stage_memory.hpp"
#include "kernels/model/memory.hpp"

namespace slimpack::command {

namespace {

using CudaMemory = kernels::BackEndMemory<kernels::cuda::DeviceSizes<kernels::cuda::CudaDevice>>;
using AnyMemory = std::variant<kernels::CpuMemory, CudaMemory>;

}  // namespace

struct RankMemory::BackEnd {
  AnyMemory memory;

  template <class Ask>
  [[nodiscard]] double operator()(const Ask& ask) const {
    return std::visit(ask, memory);
  }
};

kernels::StageOptions stage_options(bool gpu, bool by_heads, double limit_bytes) {
  kernels::StageOptions stage{
      .merged = by_heads ? kernels::MergedAttention::heads : kernels::MergedAttention::ring,
      .limit_bytes = limit_bytes};
  if (gpu) stage.head_chunk_tokens = stage.ring_tokens = 2048;  // a GPU wants large products, and few merges
  return stage;
}

RankMemory::RankMemory(bool gpu, const Transformer& model, std::span<const std::int32_t> layers,
                       double weight_bytes, const kernels::StageOptions& stage, double moments,
                       const TensorShare& tensor, std::size_t context) {
  const auto of = [&]<class M>(std::in_place_type_t<M> type) {
    return std::make_shared<const BackEnd>(
        BackEnd{AnyMemory(type, model, layers, weight_bytes, stage, moments, tensor, context)});
  };
  back_end_ = gpu ? of(std::in_place_type<CudaMemory>) : of(std::in_place_type<kernels::CpuMemory>);
}

double RankMemory::capacity_bytes() const {
  return (*back_end_)([](const auto& m) { return m.capacity_bytes(); });
}

double RankMemory::static_bytes(std::size_t stage) const {
  return (*back_end_)([&](const auto& m) { return m.static_bytes(stage); });
}

double RankMemory::activation_bytes(std::size_t stage, int recompute_layers) const {
  return (*back_end_)([&](const auto& m) { return m.activation_bytes(stage, recompute_layers); });
}

double RankMemory::kv_gradient_bytes(std::size_t stage) const {
  return (*back_end_)([&](const auto& m) { return m.kv_gradient_bytes(stage); });
}

double RankMemory::workspace_bytes(std::size_t stage, Pass pass, Tokens tokens, int recompute) const {
  return (*back_end_)([&](const auto& m) { return m.workspace_bytes(stage, pass, tokens, recompute); });
}

double RankMemory::exchange_bytes(std::size_t stage, Pass pass, Tokens tokens, std::size_t members,
                                  KeyExchange exchange) const {
  return (*back_end_)(
      [&](const auto& m) { return m.exchange_bytes(stage, pass, tokens, members, exchange); });
}

}  // namespace slimpack::command
