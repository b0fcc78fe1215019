#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernels/cuda/cudnn/cudnn_batch.hpp"
#include "kernels/cuda/library_attention.hpp"

// A pack's attention as cuDNN has it: graphs of its front end, their plans, and a run of these with a pack's
// data.
namespace slimpack::kernels::cuda::cudnn {

struct DestroyHandle {
  void operator()(cudnnHandle_t handle) const { static_cast<void>(cudnnDestroy(handle)); }
};

using Handle = std::unique_ptr<cudnnContext, DestroyHandle>;

/// @throws InvalidInput without a GPU; std::runtime_error with cuDNN's words.
[[nodiscard]] Handle make_handle();

/// cuDNN's plans for packs of one size.
struct Plans;

/// @throws std::runtime_error with cuDNN's words if it has no plan.
[[nodiscard]] std::shared_ptr<Plans> make_plans(const CudnnSizes& sizes, cudnnHandle_t handle);

/// In place of plans, where nothing will run.
[[nodiscard]] std::shared_ptr<Plans> no_plans();

/// What cuDNN has against the graphs on a GPU of a compute capability, 10 * major + minor, without one.
[[nodiscard]] std::optional<std::string> refusal_of(const CudnnSizes& sizes, int capability);

/// A pack's plans and lists: what its attention needs in addition to matrices.
struct PlannedPack {
  HeadShape shape;
  std::shared_ptr<Plans> plans;
  CudnnLists lists;
  std::size_t tokens = 0;
  std::size_t gradient_rows = 0;  ///< of keys, or of values; 0 without a backward pass
  bool own_statistics = false;    ///< log-sum-exps come and go as cuDNN has them, [tokens x heads]

  /// Bytes of these.
  [[nodiscard]] std::size_t gradient_bytes() const {
    return whole_lines(gradient_rows * shape.kv_width() * sizeof(Bf16));
  }
  /// Of log-sum-exps in cuDNN's order.
  [[nodiscard]] std::size_t statistics_bytes() const {
    return own_statistics ? 0 : whole_lines(tokens * shape.heads * sizeof(float));
  }
  /// Of what cuDNN needs for the backward pass, without these.
  [[nodiscard]] std::size_t backward_bytes() const;
  [[nodiscard]] std::size_t workspace_bytes() const;

 private:
  [[nodiscard]] static std::size_t whole_lines(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
};

/// Queues the forward pass. cuDNN's log-sum-exps stand in the workspace first.
void run_forward(const PlannedPack& pack, const PackMatrices& m, cudnnHandle_t handle, Stream stream);

/// Gradients as cuDNN has them: those of keys and values are set, in consecutive rows of the samples.
/// @param workspace of `statistics_bytes` and `backward_bytes`
void set_gradients(const PlannedPack& pack, const PackMatrices& m, Bf16* dk, Bf16* dv, std::byte* workspace,
                   cudnnHandle_t handle, Stream stream);

/// The backward pass with the meaning of ours: cuDNN sets the gradients of keys and values where ours adds.
void run_backward(const PlannedPack& pack, const PackMatrices& m, cudnnHandle_t handle, Stream stream);

}  // namespace slimpack::kernels::cuda::cudnn
