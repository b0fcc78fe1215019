// A layer of a CpuStage: x += attention(norm(x)), x += mlp(norm(x)).
#include <algorithm>

#include "kernels/math/rms_norm.hpp"
#include "kernels/math/swiglu.hpp"
#include "kernels/model/stage.hpp"

namespace slimpack::kernels {

template <class Real>
void CpuStage<Real>::norm(const MatrixView<const Real>& x, std::span<const Real> weight) {
  normed_.resize(x.rows, x.cols);
  rms_norm<Real>(x, weight, options_.norm_epsilon, normed_.view());
}

template <class Real>
void CpuStage<Real>::norm_backward(const MatrixView<const Real>& x, std::span<const Real> weight,
                                   std::span<Real> dweight) {
  rms_norm_backward<Real>(x, weight, options_.norm_epsilon, dnormed_.view(), dx_.view(), dweight);
}

/// attention_out_ and lse_ from queries, and the keys and values that are stored.
template <class Real>
void CpuStage<Real>::attend(std::size_t layer, const StageTask& task, const MatrixView<const Real>& q) {
  attention_out_.resize(q.rows, q.cols);
  lse_.resize(q.rows, part_.heads().heads);
  sum_.resize(q.rows, part_.heads().heads);
  attention_.forward(task, layer, q, {attention_out_.view(), lse_.view(), sum_.view()}, lse_.view());
}

/// gate_up_ and act_ from the residual stream between attention and MLP.
template <class Real>
void CpuStage<Real>::activate(std::size_t layer, const MatrixView<const Real>& middle) {
  const auto w = weights_.layer(layer);
  norm(middle, w.mlp_norm);
  gate_up_.resize(middle.rows, 2 * part_.ffn());
  multiply<Real>(normed_.view(), w.gate_up, gate_up_.view());
  act_.resize(middle.rows, part_.ffn());
  swiglu<Real>(gate_up_.view(), act_.view());
}

template <class Real>
void CpuStage<Real>::layer_forward(std::size_t layer, const StageTask& task) {
  const auto w = weights_.layer(layer);
  const std::size_t query = part_.heads().query_width(), kv = part_.heads().kv_width();
  activations_.save(task, Kept::input, layer, x_.view());
  norm(x_.view(), w.attention_norm);
  qkv_.resize(x_.rows(), query + 2 * kv);
  multiply<Real>(normed_.view(), w.qkv, qkv_.view());
  rope<Real>(rope_, qkv_.view().middle_cols(0, query + kv));
  const MatrixView<const Real> q = qkv_.view().middle_cols(0, query);
  attention_.store(task, layer, qkv_.view().middle_cols(query, kv), qkv_.view().middle_cols(query + kv, kv));
  attend(layer, task, q);
  activations_.save(task, Kept::query, layer, q);
  activations_.save(task, Kept::attention, layer, attention_out_.view());
  activations_.save(task, Kept::lse, layer, lse_.view());
  multiply<Real>(attention_out_.view(), w.output, x_.view(), Update::add);
  activations_.save(task, Kept::middle, layer, x_.view());
  activate(layer, x_.view());
  activations_.save(task, Kept::gate_up, layer, gate_up_.view());
  multiply<Real>(act_.view(), w.down, x_.view(), Update::add);
}

/// x_, middle_, q_, attention_out_, lse_, gate_up_ and act_ as they were in forward.
template <class Real>
void CpuStage<Real>::load_or_recompute(std::size_t layer, const StageTask& task) {
  const auto w = weights_.layer(layer);
  const auto tokens = static_cast<std::size_t>(task.owned_tokens);
  const HeadShape heads = part_.heads();
  x_.resize(tokens, part_.hidden());
  middle_.resize(tokens, part_.hidden());
  q_.resize(tokens, heads.query_width());
  activations_.load(task, Kept::input, layer, x_.view());
  if (layer < static_cast<std::size_t>(task.recompute_layers)) {
    norm(x_.view(), w.attention_norm);
    multiply<Real>(normed_.view(), w.qkv.middle_cols(0, heads.query_width()), q_.view());
    rope<Real>(rope_, q_.view());
    attend(layer, task, q_.view());
    std::copy_n(x_.data(), tokens * part_.hidden(), middle_.data());
    multiply<Real>(attention_out_.view(), w.output, middle_.view(), Update::add);
    activate(layer, middle_.view());
    return;
  }
  attention_out_.resize(tokens, heads.query_width());
  lse_.resize(tokens, heads.heads);
  gate_up_.resize(tokens, 2 * part_.ffn());
  act_.resize(tokens, part_.ffn());
  activations_.load(task, Kept::query, layer, q_.view());
  activations_.load(task, Kept::attention, layer, attention_out_.view());
  activations_.load(task, Kept::lse, layer, lse_.view());
  activations_.load(task, Kept::middle, layer, middle_.view());
  activations_.load(task, Kept::gate_up, layer, gate_up_.view());
  swiglu<Real>(gate_up_.view(), act_.view());
}

template <class Real>
void CpuStage<Real>::mlp_backward(std::size_t layer, const StageTask& task) {
  const auto w = weights_.layer(layer);
  const auto g = weights_.layer_gradients(layer);
  dact_.resize(dx_.rows(), part_.ffn());
  dnormed_.resize(dx_.rows(), part_.hidden());
  weight_gradient(task, act_, dx_, g.down);
  multiply_transposed<Real>(dx_.view(), w.down, dact_.view());
  swiglu_backward<Real>(gate_up_.view(), dact_.view(), gate_up_.view());
  norm(middle_.view(), w.mlp_norm);
  weight_gradient(task, normed_, gate_up_, g.gate_up);
  multiply_transposed<Real>(gate_up_.view(), w.gate_up, dnormed_.view());
  norm_backward(middle_.view(), w.mlp_norm, g.mlp_norm);
}

template <class Real>
void CpuStage<Real>::attention_backward(std::size_t layer, const StageTask& task) {
  const auto w = weights_.layer(layer);
  const auto g = weights_.layer_gradients(layer);
  const std::size_t query = part_.heads().query_width(), kv = part_.heads().kv_width();
  dattention_.resize(dx_.rows(), query);
  dqkv_.resize(dx_.rows(), query + 2 * kv);
  weight_gradient(task, attention_out_, dx_, g.output);
  multiply_transposed<Real>(dx_.view(), w.output, dattention_.view());
  std::fill_n(dqkv_.data(), dqkv_.rows() * dqkv_.cols(), Real{0});
  attention_.backward(task, layer, q_.view(), {attention_out_.view(), lse_.view(), dattention_.view()},
                      dqkv_.view().middle_cols(0, query));
  attention_.gradients(task, layer, dqkv_.view().middle_cols(query, kv),
                       dqkv_.view().middle_cols(query + kv, kv));
  rope_backward<Real>(rope_, dqkv_.view().middle_cols(0, query + kv));
  norm(x_.view(), w.attention_norm);
  weight_gradient(task, normed_, dqkv_, g.qkv);
  multiply_transposed<Real>(dqkv_.view(), w.qkv, dnormed_.view());
  norm_backward(x_.view(), w.attention_norm, g.attention_norm);
}

#define SLIMPACK_INSTANTIATE(Real)                                                                  \
  template void CpuStage<Real>::norm(const MatrixView<const Real>&, std::span<const Real>);         \
  template void CpuStage<Real>::norm_backward(const MatrixView<const Real>&, std::span<const Real>, \
                                              std::span<Real>);                                     \
  template void CpuStage<Real>::layer_forward(std::size_t, const StageTask&);                       \
  template void CpuStage<Real>::load_or_recompute(std::size_t, const StageTask&);                   \
  template void CpuStage<Real>::mlp_backward(std::size_t, const StageTask&);                        \
  template void CpuStage<Real>::attention_backward(std::size_t, const StageTask&);
SLIMPACK_INSTANTIATE(float)
SLIMPACK_INSTANTIATE(double)

}  // namespace slimpack::kernels
