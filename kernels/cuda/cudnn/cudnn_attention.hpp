#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/library_attention.hpp"

namespace slimpack::kernels::cuda {

/// In which order cuDNN adds up the queries' gradients. In a fixed one they have the same bits each time, but its
/// front end then asks for a workspace of heads x queries x keys: 69 GB for 4096 tokens of 32 heads that see
/// 262,144. In any order it is faster.
enum class CudnnOrder : std::uint8_t {
  automatic,  ///< fixed where the workspace that there is suffices, any elsewhere
  fixed,
  any
};

struct CudnnOptions {
  CudnnOrder order = CudnnOrder::automatic;
  std::size_t workspace = std::size_t{1} << 30U;  ///< bytes that the automatic order keeps within
  bool rounded = false;  ///< a plan for sizes that are rounded up, as a stage's, which serve other packs
  bool own_statistics = false;  ///< log-sum-exps come and go as cuDNN has them, [tokens x heads]
};

/// cuDNN's fused attention of one pack, with the meaning of `attention` and `attention_backward`: to compare
/// ours with, and to use where it is faster. It takes cuDNN 9.6 and its front end; the plans are made once
/// for a pack, and serve all layers, if their matrices have the same strides. One object serves one thread
/// and one stream at a time.
class CudnnAttention {
 public:
  /// Asks cuDNN for its plans, which takes it milliseconds to seconds.
  /// @param in queries, keys and values of the first layer: their shapes and strides count
  /// @param gradients whether there will be a backward pass
  /// @throws InvalidInput without a GPU; as `attention_work`; for gradients, if two slices are of one sample;
  /// std::runtime_error with cuDNN's words if it has no plan.
  CudnnAttention(const HeadShape& shape, std::span<const AttentionSlice> slices, const AttentionInput& in,
                 bool gradients, const CudnnOptions& options = {});
  ~CudnnAttention();
  CudnnAttention(CudnnAttention&&) noexcept;
  CudnnAttention& operator=(CudnnAttention&&) noexcept;

  /// Bytes that both passes need; gradients of keys and values among them, since cuDNN sets what is added
  /// here.
  [[nodiscard]] std::size_t workspace_bytes() const;
  /// Whether gradients are added up in another order each time.
  [[nodiscard]] bool any_order() const;

  /// @param out, lse as for `attention`, in consecutive rows
  /// @throws InvalidInput if shapes or strides are others than those of the plan, or the workspace is too
  /// small; std::runtime_error if cuDNN fails.
  void forward(const AttentionInput& in, const MatrixView<Bf16>& out, const MatrixView<float>& lse,
               std::span<std::byte> workspace, Stream stream);

  /// Sets dq and adds to dk and dv, of the same bits at each call unless it is in any order. @param out, lse of
  /// forward
  void backward(const AttentionInput& in, const MatrixView<const Bf16>& out,
                const MatrixView<const float>& lse, const MatrixView<const Bf16>& dout,
                const MatrixView<Bf16>& dq, const MatrixView<float>& dk, const MatrixView<float>& dv,
                std::span<std::byte> workspace, Stream stream);

  /// The same as cuDNN has it: sets dk and dv, as bf16, in consecutive rows, of the samples in the pack. For
  /// comparisons.
  void backward_set(const AttentionInput& in, const MatrixView<const Bf16>& out,
                    const MatrixView<const float>& lse, const MatrixView<const Bf16>& dout,
                    const MatrixView<Bf16>& dq, const MatrixView<Bf16>& dk, const MatrixView<Bf16>& dv,
                    std::span<std::byte> workspace, Stream stream);

 private:
  struct State;

  std::unique_ptr<State> state_;
};

/// Plans that `cudnn_library` keeps: those of the sizes that were asked for last.
inline constexpr std::size_t most_cudnn_plans = 64;

/// cuDNN's attention for a stage: `DeviceStage::set_attention` takes it. It makes plans as packs ask for
/// them, which takes it milliseconds to seconds for each new size of a pack. Sizes are rounded up, so that a plan
/// serves many packs, with sequences of length zero for those that are not there. A pack is
/// refused with cuDNN's words if it has no plan; or, in backward, if two slices are of one sample. Of two
/// stages, each needs one of its own. The first pack throws InvalidInput without a GPU.
[[nodiscard]] AttentionLibrary<Stream> cudnn_library(CudnnOrder order = CudnnOrder::automatic);

/// What cuDNN has against a pack's attention on a GPU of compute capability 9.0, as far as it tells without
/// one; nothing if it takes it. @throws InvalidInput as the constructor, but for the want of a GPU.
[[nodiscard]] std::optional<std::string> cudnn_refusal(const HeadShape& shape,
                                                       std::span<const AttentionSlice> slices,
                                                       const AttentionInput& in, bool gradients,
                                                       const CudnnOptions& options = {});
[[nodiscard]] std::optional<std::string> cudnn_refusal(const PackProblem& problem,
                                                       const CudnnOptions& options = {});

}  // namespace slimpack::kernels::cuda
