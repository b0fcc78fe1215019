#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "bench/gpu/attention_by.hpp"
#include "bench/gpu/buffers.hpp"
#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/runtime.hpp"
#ifdef SLIMPACK_BENCH_CUDNN
#include "kernels/cuda/cudnn/cudnn_attention.hpp"
#endif

namespace slimpack::bench {

/// Our kernels that this GPU and this build have, the fastest last.
[[nodiscard]] inline std::vector<AttentionBy> our_attention() {
  std::vector<AttentionBy> out{AttentionBy::mma_sync};
  if (cuda::best_attention_rows() == cuda::group_attention_rows) out.push_back(AttentionBy::wgmma);
  return out;
}

/// What a library has in this build.
[[nodiscard]] inline std::vector<AttentionBy> library_attention() {
#ifdef SLIMPACK_BENCH_CUDNN
  return {AttentionBy::cudnn, AttentionBy::cudnn_fixed, AttentionBy::cudnn_fast};
#else
  return {};
#endif
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
    if (is_ours(by)) return;
    const bool fast = by == AttentionBy::cudnn_fast;
    library_ = std::make_unique<cuda::CudnnAttention>(
        shape, slices, in, true,
        cuda::CudnnOptions{.order = fast                             ? cuda::CudnnOrder::any
                                    : by == AttentionBy::cudnn_fixed ? cuda::CudnnOrder::fixed
                                                                     : cuda::CudnnOrder::automatic,
                           .rounded = by == AttentionBy::cudnn,
                           .own_statistics = fast});
    workspace_ = cuda::DeviceMemory(library_->workspace_bytes());
    if (fast) set_ = std::make_unique<KeyGradients>(in.k.rows, shape.kv_width());
#endif
  }

  void forward(const Rows<cuda::Bf16>& out, const Rows<float>& lse, cuda::Stream stream) {
#ifdef SLIMPACK_BENCH_CUDNN
    if (library_) return library_->forward(in_, out.view(), statistics(lse), workspace_.bytes(), stream);
#endif
    cuda::attention(shape_, in_, items(), out.view(), lse.view(), stream);
  }

  /// What the backward pass reads in addition to the input, and writes.
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
    if (library_ && set_) {
      return library_->backward_set(in_, g.out.in(), statistics(g.lse), g.dout.in(), g.dq.view(),
                                    set_->dk.view(), set_->dv.view(), workspace_.bytes(), stream);
    }
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
  struct KeyGradients {
    KeyGradients(std::size_t rows, std::size_t cols) : dk(rows, cols), dv(rows, cols) {}
    Rows<cuda::Bf16> dk, dv;
  };

  /// Log-sum-exps as the library has them.
  [[nodiscard]] kernels::MatrixView<float> statistics(const Rows<float>& lse) const {
    const kernels::MatrixView<float> ours = lse.view();
    return set_ ? kernels::MatrixView<float>(ours.data, ours.cols, ours.rows) : ours;
  }

  std::unique_ptr<cuda::CudnnAttention> library_;
  std::unique_ptr<KeyGradients> set_;
  cuda::DeviceMemory workspace_;
#endif
};

}  // namespace slimpack::bench
