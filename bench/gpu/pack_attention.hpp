#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "bench/gpu/buffers.hpp"
#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/runtime.hpp"
#ifdef SLIMPACK_BENCH_CUDNN
#include "kernels/cuda/cudnn/cudnn_attention.hpp"
#endif

namespace slimpack::bench {

/// Who computes attention: our kernels for every GPU or for Hopper, or a library.
enum class AttentionBy { mma_sync, wgmma, cudnn };

[[nodiscard]] inline const char* name_of(AttentionBy by) {
  switch (by) {
    case AttentionBy::mma_sync:
      return "mma.sync";
    case AttentionBy::wgmma:
      return "wgmma";
    case AttentionBy::cudnn:
      return "cuDNN";
  }
  return "";
}

/// Those that this GPU and this build have.
[[nodiscard]] inline std::vector<AttentionBy> ways_of_attention() {
  std::vector<AttentionBy> out{AttentionBy::mma_sync};
  if (cuda::best_attention_rows() == cuda::group_attention_rows) out.push_back(AttentionBy::wgmma);
#ifdef SLIMPACK_BENCH_CUDNN
  out.push_back(AttentionBy::cudnn);
#endif
  return out;
}

/// Attention of one pack, prepared.
class PackAttention {
 public:
  PackAttention(AttentionBy by, const kernels::HeadShape& shape,
                const std::vector<cuda::AttentionSlice>& slices, const cuda::AttentionInput& in)
      : shape_(shape),
        in_(in),
        work_(cuda::attention_work(
            slices, in.q.rows, in.k.rows,
            by == AttentionBy::wgmma ? cuda::group_attention_rows : cuda::attention_rows)),
        slices_(work_.slices),
        queries_(work_.queries),
        keys_(work_.keys) {
#ifdef SLIMPACK_BENCH_CUDNN
    if (by != AttentionBy::cudnn) return;
    library_ = std::make_unique<cuda::CudnnAttention>(shape, slices, in, true);
    workspace_ = cuda::DeviceMemory(library_->workspace_bytes());
#endif
  }

  void forward(const Rows<cuda::Bf16>& out, const Rows<float>& lse, cuda::Stream stream) {
#ifdef SLIMPACK_BENCH_CUDNN
    if (library_) return library_->forward(in_, out.view(), lse.view(), workspace_.bytes(), stream);
#endif
    cuda::attention(shape_, in_, items(), out.view(), lse.view(), stream);
  }

  /// What backward reads beside the input, and writes.
  struct Gradients {
    const Rows<cuda::Bf16>& out;
    const Rows<float>& lse;
    const Rows<cuda::Bf16>& dout;
    const Rows<float>& delta;
    const Rows<cuda::Bf16>& dq;
    const Rows<float>&dk, &dv;
  };

  void backward(const Gradients& g, cuda::Stream stream) {
#ifdef SLIMPACK_BENCH_CUDNN
    if (library_) {
      return library_->backward(in_, g.out.in(), g.lse.in(), g.dout.in(), g.dq.view(), g.dk.view(),
                                g.dv.view(), workspace_.bytes(), stream);
    }
#endif
    cuda::attention_backward(shape_, in_, items(), g.out.in(), g.lse.in(), g.dout.in(), g.delta.view(),
                             g.dq.view(), g.dk.view(), g.dv.view(), stream);
  }

 private:
  [[nodiscard]] cuda::AttentionItems items() const {
    return {slices_.span(), queries_.span(), keys_.span(), work_.rows};
  }

  kernels::HeadShape shape_;
  cuda::AttentionInput in_;
  cuda::AttentionWork work_;
  Numbers<cuda::AttentionSlice> slices_;
  Numbers<cuda::QueryItem> queries_;
  Numbers<cuda::KeyItem> keys_;
#ifdef SLIMPACK_BENCH_CUDNN
  std::unique_ptr<cuda::CudnnAttention> library_;
  cuda::DeviceMemory workspace_;
#endif
};

}  // namespace slimpack::bench
