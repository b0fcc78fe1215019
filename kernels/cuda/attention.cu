#include "kernels/cuda/attention.hpp"

#include <atomic>

#include "kernels/cuda/launcher_private.hpp"

namespace slimpack::kernels::cuda {

namespace {

std::atomic<bool> mma_sync_alone = false;

/// Whether the current GPU has `wgmma`, and the library code for it.
[[nodiscard]] bool has_wgmma() {
#ifdef SLIMPACK_CUDA_WGMMA
  int device = 0, major = 0;
  check(cudaGetDevice(&device), "asking for the current GPU");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "reading a GPU's attributes");
  return major == 9;
#else
  return false;
#endif
}

void require_code(const AttentionItems& items) {
  require(items.rows == attention_rows || (items.rows == group_attention_rows && has_wgmma()),
          "attention's work has blocks of ", items.rows, " tokens; expected ", best_attention_rows(),
          " here (128 take a GPU of compute capability 9.0, and 90a among SLIMPACK_CUDA_ARCHITECTURES)");
}

}  // namespace

std::int32_t best_attention_rows() {
  return has_wgmma() && !mma_sync_alone ? group_attention_rows : attention_rows;
}

void use_mma_sync_alone() { mma_sync_alone = true; }

void attention(const HeadShape& shape, const AttentionInput& in, const AttentionItems& items,
               const MatrixView<Bf16>& out, const MatrixView<float>& lse, Stream stream) {
  require_code(items);
  attention_by(DeviceLauncher{stream}, shape, in, items, out, lse);
}

void attention_backward(const HeadShape& shape, const AttentionInput& in, const AttentionItems& items,
                        const MatrixView<const Bf16>& out, const MatrixView<const float>& lse,
                        const MatrixView<const Bf16>& dout, const MatrixView<float>& delta,
                        const MatrixView<Bf16>& dq, const MatrixView<float>& dk, const MatrixView<float>& dv,
                        Stream stream) {
  require_code(items);
  attention_backward_by(DeviceLauncher{stream}, shape, in, items, out, lse, dout, delta, dq, dk, dv);
}

}  // namespace slimpack::kernels::cuda
