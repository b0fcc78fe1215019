// A layer of a CpuStage: x += attention(norm(x)), x += mlp(norm(x)).
#include <algorithm>

#include "kernels/math/rms_norm.hpp"
#include "kernels/math/swiglu.hpp"
#include "kernels/model/stage.hpp"

namespace slimpack::kernels {

template <class Real>
void CpuStage<Real>::norm(const MatrixView<const Real>& x, std::span<const Real> weight) {
  rms_norm<Real>(x, weight, options_.norm_epsilon, work_.normed);
}

template <class Real>
void CpuStage<Real>::norm_backward(const MatrixView<const Real>& x, std::span<const Real> weight,
                                   std::span<Real> dweight) {
  rms_norm_backward<Real>(x, weight, options_.norm_epsilon, work_.dnormed, work_.dx, dweight);
}

/// All ranks' rows of some of the residual stream's form, until the next call or product.
template <class Real>
MatrixView<const Real> CpuStage<Real>::gathered(const MatrixView<const Real>& own) {
  return tensor_rows_.gather(own, work_.message, work_.whole);
}

/// to += a w, of which each tensor-parallel rank has some rows of w.
template <class Real>
void CpuStage<Real>::add_product(const MatrixView<const Real>& a, const MatrixView<const Real>& w,
                                 const MatrixView<Real>& to) {
  if (part_.tensor.size == 1) return multiply<Real>(a, w, to, Update::add);
  multiply<Real>(a, w, work_.whole.middle_rows(0, a.rows));
  tensor_rows_.reduce(work_.whole, work_.message, to, Update::add);
}

/// dnormed = a w^T, of which each tensor-parallel rank has some columns of w.
template <class Real>
void CpuStage<Real>::set_dnormed(const MatrixView<const Real>& a, const MatrixView<const Real>& w) {
  if (part_.tensor.size == 1) return multiply_transposed<Real>(a, w, work_.dnormed);
  multiply_transposed<Real>(a, w, work_.whole.middle_rows(0, a.rows));
  tensor_rows_.reduce(work_.whole, work_.message, work_.dnormed, Update::set);
}

/// The workspace's attention and lse from queries, and the keys and values that are stored.
template <class Real>
void CpuStage<Real>::attend(std::size_t layer, const StageTask& task, const MatrixView<const Real>& q) {
  attention_.forward(task, layer, q, {work_.attention, work_.lse, work_.sum}, work_.lse);
}

/// The workspace's gate_up and act from the residual stream between attention and MLP.
template <class Real>
void CpuStage<Real>::activate(std::size_t layer, const MatrixView<const Real>& middle) {
  const auto w = weights_.layer(layer);
  norm(middle, w.mlp_norm);
  multiply<Real>(gathered(work_.normed), w.gate_up, work_.gate_up);
  swiglu<Real>(work_.gate_up, work_.act);
}

template <class Real>
void CpuStage<Real>::layer_forward(std::size_t layer, const StageTask& task) {
  const auto w = weights_.layer(layer);
  const std::size_t query = part_.heads().query_width(), kv = part_.heads().kv_width();
  activations_.save(task, Kept::input, layer, work_.x);
  norm(work_.x, w.attention_norm);
  multiply<Real>(gathered(work_.normed), w.qkv, work_.qkv);
  rope<Real>(rope_, work_.qkv.middle_cols(0, query + kv));
  const MatrixView<const Real> q = work_.qkv.middle_cols(0, query);
  attention_.store(task, layer, work_.qkv.middle_cols(query, kv), work_.qkv.middle_cols(query + kv, kv));
  attend(layer, task, q);
  activations_.save(task, Kept::query, layer, q);
  activations_.save(task, Kept::attention, layer, work_.attention);
  activations_.save(task, Kept::lse, layer, work_.lse);
  add_product(work_.attention, w.output, work_.x);
  activations_.save(task, Kept::middle, layer, work_.x);
  activate(layer, work_.x);
  activations_.save(task, Kept::gate_up, layer, work_.gate_up);
  add_product(work_.act, w.down, work_.x);
}

/// x, middle, q, attention, lse, gate_up and act of the workspace as they were in forward.
template <class Real>
void CpuStage<Real>::load_or_recompute(std::size_t layer, const StageTask& task) {
  const auto w = weights_.layer(layer);
  const std::size_t query = part_.heads().query_width();
  activations_.load(task, Kept::input, layer, work_.x);
  if (layer < static_cast<std::size_t>(task.recompute_layers)) {
    norm(work_.x, w.attention_norm);
    multiply<Real>(gathered(work_.normed), w.qkv.middle_cols(0, query), work_.q);
    rope<Real>(rope_, work_.q);
    attend(layer, task, work_.q);
    std::copy_n(work_.x.data, work_.x.rows * work_.x.cols, work_.middle.data);
    add_product(work_.attention, w.output, work_.middle);
    activate(layer, work_.middle);
    return;
  }
  activations_.load(task, Kept::query, layer, work_.q);
  activations_.load(task, Kept::attention, layer, work_.attention);
  activations_.load(task, Kept::lse, layer, work_.lse);
  activations_.load(task, Kept::middle, layer, work_.middle);
  activations_.load(task, Kept::gate_up, layer, work_.gate_up);
  swiglu<Real>(work_.gate_up, work_.act);
}

template <class Real>
void CpuStage<Real>::mlp_backward(std::size_t layer, const StageTask& task) {
  const auto w = weights_.layer(layer);
  const auto g = weights_.layer_gradients(layer);
  const MatrixView<const Real> dx = gathered(work_.dx);
  weight_gradient(task, work_.act, dx, g.down);
  multiply_transposed<Real>(dx, w.down, work_.dact);
  swiglu_backward<Real>(work_.gate_up, work_.dact, work_.gate_up);
  norm(work_.middle, w.mlp_norm);
  weight_gradient(task, gathered(work_.normed), work_.gate_up, g.gate_up);
  set_dnormed(work_.gate_up, w.gate_up);
  norm_backward(work_.middle, w.mlp_norm, g.mlp_norm);
}

template <class Real>
void CpuStage<Real>::attention_backward(std::size_t layer, const StageTask& task) {
  const auto w = weights_.layer(layer);
  const auto g = weights_.layer_gradients(layer);
  const std::size_t query = part_.heads().query_width(), kv = part_.heads().kv_width();
  const MatrixView<const Real> dx = gathered(work_.dx);
  weight_gradient(task, work_.attention, dx, g.output);
  multiply_transposed<Real>(dx, w.output, work_.dattention);
  std::fill_n(work_.dqkv.data, work_.dqkv.rows * work_.dqkv.cols, Real{0});
  attention_.backward(task, layer, work_.q, {work_.attention, work_.lse, work_.dattention},
                      work_.dqkv.middle_cols(0, query));
  attention_.gradients(task, layer, work_.dqkv.middle_cols(query, kv),
                       work_.dqkv.middle_cols(query + kv, kv));
  rope_backward<Real>(rope_, work_.dqkv.middle_cols(0, query + kv));
  norm(work_.x, w.attention_norm);
  weight_gradient(task, gathered(work_.normed), work_.dqkv, g.qkv);
  set_dnormed(work_.dqkv, w.qkv);
  norm_backward(work_.x, w.attention_norm, g.attention_norm);
}

#define SLIMPACK_INSTANTIATE(Real)                                                                         \
  template void CpuStage<Real>::norm(const MatrixView<const Real>&, std::span<const Real>);                \
  template void CpuStage<Real>::norm_backward(const MatrixView<const Real>&, std::span<const Real>,        \
                                              std::span<Real>);                                            \
  template MatrixView<const Real> CpuStage<Real>::gathered(const MatrixView<const Real>&);                 \
  template void CpuStage<Real>::add_product(const MatrixView<const Real>&, const MatrixView<const Real>&,  \
                                            const MatrixView<Real>&);                                      \
  template void CpuStage<Real>::set_dnormed(const MatrixView<const Real>&, const MatrixView<const Real>&); \
  template void CpuStage<Real>::layer_forward(std::size_t, const StageTask&);                              \
  template void CpuStage<Real>::load_or_recompute(std::size_t, const StageTask&);                          \
  template void CpuStage<Real>::mlp_backward(std::size_t, const StageTask&);                               \
  template void CpuStage<Real>::attention_backward(std::size_t, const StageTask&);
SLIMPACK_INSTANTIATE(float)
SLIMPACK_INSTANTIATE(double)

}  // namespace slimpack::kernels
