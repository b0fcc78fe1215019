#pragma once

#include <cudnn.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "kernels/cuda/cudnn/cudnn_batch.hpp"
#include "kernels/cuda/library_attention.hpp"

// A pack's attention as cuDNN has it: graphs of its front end, their plans, and a run of these with a pack's
// data.
namespace slimpack::kernels::cuda::cudnn {

/// A pack's sizes, from which both graphs are made.
struct Sizes {
  HeadShape shape;
  AttentionStrides strides;
  std::size_t tokens = 0;
  std::int64_t samples = 0, longest_queries = 0, longest_keys = 0;
  bool gradients = false, deterministic = true;

  /// The same for packs that the same graphs serve.
  [[nodiscard]] auto key() const {
    return std::tuple(shape.heads, shape.kv_heads, shape.head_dim, strides.q, strides.k, strides.v,
                      strides.out, strides.dq, tokens, samples, longest_queries, longest_keys, gradients,
                      deterministic);
  }
  [[nodiscard]] float scale() const {
    return static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  }
};

struct DestroyHandle {
  void operator()(cudnnHandle_t handle) const { static_cast<void>(cudnnDestroy(handle)); }
};

using Handle = std::unique_ptr<cudnnContext, DestroyHandle>;

/// @throws InvalidInput without a GPU; std::runtime_error with cuDNN's words.
[[nodiscard]] Handle make_handle();

/// cuDNN's plans for packs of one size.
struct Plans;

/// @throws std::runtime_error with cuDNN's words if it has no plan.
[[nodiscard]] std::shared_ptr<Plans> make_plans(const Sizes& sizes, cudnnHandle_t handle);

/// What cuDNN has against the graphs on a GPU of a compute capability, 10 * major + minor, without one.
[[nodiscard]] std::optional<std::string> refusal_of(const Sizes& sizes, int capability);

/// A pack's plans and lists: what its attention needs in addition to matrices.
struct PlannedPack {
  HeadShape shape;
  std::shared_ptr<Plans> plans;
  CudnnLists lists;
  std::size_t gradient_rows = 0;  ///< of keys, or of values; 0 without a backward pass

  /// Bytes of these.
  [[nodiscard]] std::size_t gradient_bytes() const {
    return (gradient_rows * shape.kv_width() * sizeof(Bf16) + 255) / 256 * 256;
  }
  /// Of what cuDNN needs for the backward pass, without these.
  [[nodiscard]] std::size_t backward_bytes() const;
  [[nodiscard]] std::size_t workspace_bytes() const;
};

/// Queues the forward pass.
void run_forward(const PlannedPack& pack, const PackMatrices& m, cudnnHandle_t handle, Stream stream);

/// Gradients as cuDNN has them: those of keys and values are set, in consecutive rows of the samples.
void set_gradients(const PlannedPack& pack, const PackMatrices& m, Bf16* dk, Bf16* dv, std::byte* workspace,
                   cudnnHandle_t handle, Stream stream);

/// The backward pass with the meaning of ours: cuDNN sets the gradients of keys and values where ours adds.
void run_backward(const PlannedPack& pack, const PackMatrices& m, cudnnHandle_t handle, Stream stream);

}  // namespace slimpack::kernels::cuda::cudnn
