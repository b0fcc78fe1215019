#pragma once

// What a `DeviceStage` does in a layer: included where one is instantiated.
#include <algorithm>

#include "kernels/cuda/device/rms_norm.hpp"
#include "kernels/cuda/device/rope.hpp"
#include "kernels/cuda/device/swiglu.hpp"
#include "kernels/cuda/stage.hpp"

namespace slimpack::kernels::cuda {

template <StageDevice D>
void DeviceStage<D>::norm(const MatrixView<const Bf16>& x, std::span<const Bf16> weight) {
  rms_norm_by(launch(), x, MatrixView<const Bf16>(), MatrixView<Bf16>(), weight, options_.norm_epsilon,
              work_.normed);
}

template <StageDevice D>
void DeviceStage<D>::norm_backward(const MatrixView<const Bf16>& x, std::span<const Bf16> weight,
                                   std::span<float> dweight) {
  rms_norm_backward_by(launch(), x, weight, options_.norm_epsilon, MatrixView<const Bf16>(work_.dnormed),
                       rows_, dweight, work_.norm);
}

/// The workspace's gate_up and act from the residual stream between attention and MLP.
template <StageDevice D>
void DeviceStage<D>::activate(std::size_t layer, const MatrixView<const Bf16>& middle) {
  const auto w = weights(layer);
  norm(middle, w.mlp_norm);
  device_.multiply(Product::multiply, work_.normed, w.gate_up, work_.gate_up, Update::set);
  swiglu_by(launch(), MatrixView<const Bf16>(work_.gate_up), work_.act);
}

template <StageDevice D>
void DeviceStage<D>::layer_forward(std::size_t layer, const StageTask& task) {
  const auto w = weights(layer);
  const std::size_t query = part_.heads().query_width(), kv = part_.heads().kv_width();
  const MatrixView<const Bf16> x = rows_;
  keep(Kept::input, layer, x);
  norm(x, w.attention_norm);
  device_.multiply(Product::multiply, work_.normed, w.qkv, work_.qkv, Update::set);
  rope_by(launch(), work_.rope, part_.heads().head_dim, work_.qkv.middle_cols(0, query + kv), 1.0F);
  store_keys(layer, task, work_.qkv.middle_cols(0, query), work_.qkv.middle_cols(query, 2 * kv));
  attend(layer, task, work_.qkv.middle_cols(0, query));
  keep(Kept::query, layer, MatrixView<const Bf16>(work_.qkv.middle_cols(0, query)));
  keep(Kept::attention, layer, MatrixView<const Bf16>(work_.attention));
  kept_heads_by(launch(), kept_pages(), kept_field(Kept::lse, layer), MatrixView<const float>(work_.lse));
  device_.multiply(Product::multiply, work_.attention, w.output, rows_, Update::add);
  keep(Kept::middle, layer, x);
  activate(layer, x);
  keep(Kept::gate_up, layer, MatrixView<const Bf16>(work_.gate_up));
  device_.multiply(Product::multiply, work_.act, w.down, rows_, Update::add);
}

/// x, middle, q, attention, lse, gate_up and act of the workspace as they were in forward.
template <StageDevice D>
void DeviceStage<D>::load_or_recompute(std::size_t layer, const StageTask& task) {
  const auto w = weights(layer);
  const std::size_t query = part_.heads().query_width();
  keep(Kept::input, layer, work_.x);
  if (layer < static_cast<std::size_t>(task.recompute_layers)) {
    norm(work_.x, w.attention_norm);
    device_.multiply(Product::multiply, work_.normed, w.qkv.middle_cols(0, query), work_.q, Update::set);
    rope_by(launch(), work_.rope, part_.heads().head_dim, work_.q, 1.0F);
    if (by_heads(task)) to_heads(task, shared(work_.q, work_.head_q));
    attend(layer, task, work_.q);
    device_.copy(Queue::compute, work_.middle.data, work_.x.data, work_.x.rows * work_.x.cols * sizeof(Bf16));
    device_.multiply(Product::multiply, work_.attention, w.output, work_.middle, Update::add);
    activate(layer, work_.middle);
    return;
  }
  keep(Kept::query, layer, work_.q);
  keep(Kept::attention, layer, work_.attention);
  kept_heads_by(launch(), kept_pages(), kept_field(Kept::lse, layer), work_.lse);
  keep(Kept::middle, layer, work_.middle);
  keep(Kept::gate_up, layer, work_.gate_up);
  swiglu_by(launch(), MatrixView<const Bf16>(work_.gate_up), work_.act);
}

template <StageDevice D>
void DeviceStage<D>::mlp_backward(std::size_t layer, const StageTask& task) {
  const auto w = weights(layer);
  const auto g = gradients(layer);
  weight_gradient(task, work_.act, rows_, g.down);
  device_.multiply(Product::multiply_transposed, rows_, w.down, work_.dact, Update::set);
  swiglu_backward_by(launch(), MatrixView<const Bf16>(work_.gate_up), MatrixView<const Bf16>(work_.dact),
                     work_.gate_up);
  norm(work_.middle, w.mlp_norm);
  weight_gradient(task, work_.normed, work_.gate_up, g.gate_up);
  device_.multiply(Product::multiply_transposed, work_.gate_up, w.gate_up, work_.dnormed, Update::set);
  norm_backward(work_.middle, w.mlp_norm, g.mlp_norm);
}

template <StageDevice D>
void DeviceStage<D>::attention_backward(std::size_t layer, const StageTask& task) {
  const auto w = weights(layer);
  const auto g = gradients(layer);
  const HeadShape heads = part_.heads();
  const std::size_t query = heads.query_width(), kv = heads.kv_width();
  weight_gradient(task, work_.attention, rows_, g.output);
  device_.multiply(Product::multiply_transposed, rows_, w.output, work_.dattention, Update::set);
  attend_backward(layer, task);
  rope_by(launch(), work_.rope, heads.head_dim, work_.dqkv.middle_cols(0, query + kv), -1.0F);
  norm(work_.x, w.attention_norm);
  weight_gradient(task, work_.normed, work_.dqkv, g.qkv);
  device_.multiply(Product::multiply_transposed, work_.dqkv, w.qkv, work_.dnormed, Update::set);
  norm_backward(work_.x, w.attention_norm, g.attention_norm);
}

/// Of the keys and values of samples whose backward begins: a sample's last token comes first.
template <StageDevice D>
void DeviceStage<D>::clear_gradients(const StageTask& task) {
  if (part_.layers == 0) return;
  for (const Slice& slice : task.slices) {
    const Tokens tokens = step_.program().plan().tokens[slice.sample];
    if (slice.end != tokens) continue;
    const std::size_t width = 2 * unit() / head_shares(task);
    plan_.for_each_gradient_run(
        slice.sample, 0, plan_.rows_below(slice.sample, tokens), [&](std::size_t row, std::size_t rows) {
          device_.fill(Queue::compute, std::as_writable_bytes(std::span(units_ + row * width, rows * width)),
                       0);
        });
  }
}

template <StageDevice D>
void DeviceStage<D>::weight_gradient(const StageTask& task, const MatrixView<const Bf16>& a,
                                     const MatrixView<const Bf16>& b, const MatrixView<float>& gradient) {
  if (!step_.is_split(task)) {
    device_.multiply(Product::transposed_multiply, a, b, gradient, Update::add);
    return;
  }
  const MatrixView<const Bf16> kept = set_aside(a);
  pending_[task.pack].push_back({kept, set_aside(b), gradient});
}

/// A copy of consecutive rows, for the weight task.
template <StageDevice D>
MatrixView<const Bf16> DeviceStage<D>::set_aside(const MatrixView<const Bf16>& rows) {
  const MatrixView<const Bf16> copy(set_aside_, rows.rows, rows.cols);
  const std::size_t numbers = rows.rows * rows.cols;
  device_.copy(Queue::compute, set_aside_, rows.data, numbers * sizeof(Bf16));
  set_aside_ += numbers;
  return copy;
}

}  // namespace slimpack::kernels::cuda
