#include "kernels/cuda/attention.hpp"

#include "kernels/cuda/device_warp_private.hpp"

namespace slimpack::kernels::cuda {

void attention(const HeadShape& shape, const AttentionInput& in, const AttentionItems& items,
               const MatrixView<Bf16>& out, const MatrixView<float>& lse, Stream stream) {
  attention_by(DeviceLauncher{stream}, shape, in, items, out, lse);
}

void attention_backward(const HeadShape& shape, const AttentionInput& in, const AttentionItems& items,
                        const MatrixView<const Bf16>& out, const MatrixView<const float>& lse,
                        const MatrixView<const Bf16>& dout, const MatrixView<float>& delta,
                        const MatrixView<Bf16>& dq, const MatrixView<float>& dk, const MatrixView<float>& dv,
                        Stream stream) {
  attention_backward_by(DeviceLauncher{stream}, shape, in, items, out, lse, dout, delta, dq, dk, dv);
}

}  // namespace slimpack::kernels::cuda
