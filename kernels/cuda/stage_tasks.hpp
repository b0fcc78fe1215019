#pragma once

// What a `DeviceStage` does with a task: included where one is instantiated.
#include <algorithm>

#include "kernels/cuda/device/cross_entropy.hpp"
#include "kernels/cuda/device/embedding.hpp"
#include "kernels/cuda/device/kept_rows.hpp"
#include "kernels/cuda/device/rms_norm.hpp"
#include "kernels/cuda/device/rope.hpp"
#include "kernels/cuda/device/swiglu.hpp"
#include "kernels/cuda/stage.hpp"

namespace slimpack::kernels::cuda {

template <StageDevice D>
MatrixView<const Bf16> DeviceStage<D>::forward(const StageTask& task, const MatrixView<const Bf16>& in) {
  begin_task(task, part_.first ? MatrixView<const Bf16>() : in);
  graphs_.run(task, slots_.current().data, [&] { compute(task); });
  end_task();
  return part_.last ? MatrixView<const Bf16>() : rows_;
}

template <StageDevice D>
MatrixView<const Bf16> DeviceStage<D>::backward(const StageTask& task, const MatrixView<const Bf16>& dout) {
  begin_task(task, part_.last ? MatrixView<const Bf16>() : dout);
  graphs_.run(task, slots_.current().data, [&] { compute(task); });
  // Not in the task's graph: how much it is depends on the ids.
  if (part_.first) {
    embedding_backward_by(launch(), tables_.ids, tables_.begins, tables_.tokens,
                          MatrixView<const Bf16>(rows_), layout_.ends(gradients_.data()).embedding);
  }
  end_task();
  return part_.first ? MatrixView<const Bf16>() : rows_;
}

template <StageDevice D>
void DeviceStage<D>::weight(const StageTask& task) {
  step_.require_begun(task);
  clock_.begin_task();
  graphs_.run(task, nullptr, [&] { compute(task); });
  clock_.end_task();
}

/// Gives a task's work to the queue `compute`, and asks the device for nothing else, unless it is merged: so it can
/// be captured. What it is depends on the program, the places and what `begin_graphs` names.
template <StageDevice D>
void DeviceStage<D>::compute(const StageTask& task) {
  switch (task.pass) {
    case Pass::forward:
      return compute_forward(task);
    case Pass::backward:
      return compute_backward(task);
    case Pass::weight:
      return compute_weight(task);
  }
}

template <StageDevice D>
void DeviceStage<D>::compute_forward(const StageTask& task) {
  rope_table_by(launch(), tables_.positions, part_.heads().head_dim, options_.rope_theta, work_.rope);
  if (part_.first) embedding_by(launch(), ends().embedding, tables_.ids, rows_);
  for (std::size_t layer = 0; layer < part_.layer_count(); ++layer) layer_forward(layer, task);
  if (part_.last) head_forward();
}

template <StageDevice D>
void DeviceStage<D>::compute_backward(const StageTask& task) {
  rope_table_by(launch(), tables_.positions, part_.heads().head_dim, options_.rope_theta, work_.rope);
  if (step_.is_split(task)) set_aside_ = units_ + plan_.pending(task.pack) * unit();
  clear_gradients(task);
  if (part_.last) head_backward();
  for (std::size_t layer = part_.layer_count(); layer-- > 0;) {
    load_or_recompute(layer, task);
    mlp_backward(layer, task);
    attention_backward(layer, task);
  }
}

template <StageDevice D>
void DeviceStage<D>::compute_weight(const StageTask& task) {
  for (const Pending& kept : pending_[task.pack])
    device_.multiply(Product::transposed_multiply, kept.a, kept.b, kept.gradient, Update::add);
  pending_.erase(task.pack);
}

/// Where a task computes, and what it is told.
template <StageDevice D>
void DeviceStage<D>::lay_out(const StageTask& task, const typename RowSlots<D>::Slot& slot) {
  const auto tokens = static_cast<std::size_t>(task.owned_tokens);
  work_.lay_out(part_, options_.head_chunk_tokens, task.pass, tokens,
                merged_task(task, options_, step_.program().block()), reinterpret_cast<std::byte*>(units_));
  rows_ = {slot.rows, tokens, part_.hidden()};
  tables_ = tell(task, slot.data);
}

template <StageDevice D>
void DeviceStage<D>::begin_task(const StageTask& task, const MatrixView<const Bf16>& rows) {
  step_.require_begun(task);
  const bool comes = task.pass == Pass::forward ? !part_.first : !part_.last;
  if (comes) require_rows(part_, task, rows);
  auto& slot = slots_.next();
  lay_out(task, slot);
  slots_.bring(slot.data, staging_.keep(data_.bytes()), data_.bytes().size());
  if (comes) slots_.bring(rows_.data, rows.data, rows.rows * rows.cols * sizeof(Bf16));
  slots_.brought();
  clock_.begin_task();
}

template <StageDevice D>
void DeviceStage<D>::end_task() {
  clock_.end_task();
  slots_.finished();
}

template <StageDevice D>
KeptField DeviceStage<D>::kept_field(Kept field, std::size_t layer) const {
  const ActivationLayout kept = kept_layout(part_);
  const bool is_output = field == Kept::output;
  return {.layer = is_output ? part_.layer_count() : layer,
          .before = is_output ? 0 : kept.offset(field, 0, 0),
          .width = kept.width(field),
          .input = kept.width(Kept::input),
          .full = kept.offset(Kept::input, 1, 0),
          .always = is_output || field == Kept::input};
}

template <StageDevice D>
KeptPages DeviceStage<D>::kept_pages() const {
  return {units_, unit(), tables_.pieces.data(), tables_.piece_of.data(), tables_.pages.data()};
}

template <StageDevice D>
template <class T>
void DeviceStage<D>::keep(Kept field, std::size_t layer, const MatrixView<T>& rows) {
  kept_rows_by(launch(), kept_pages(), kept_field(field, layer), rows);
}

template <StageDevice D>
template <class T>
MatrixView<T> DeviceStage<D>::key_rows(std::size_t layer, const StageTask& task, std::size_t which,
                                       std::size_t count) const {
  // A row of floats is two units, and of a merged sample a part of that.
  const std::size_t members = head_shares(task), width = own_heads(task).kv_width();
  const std::size_t rows = plan_.units() * members * sizeof(Bf16) / sizeof(T);
  return {reinterpret_cast<T*>(units_) + (2 * layer + which) * width, rows, count * width, unit() / members};
}

template <StageDevice D>
AttentionInput DeviceStage<D>::attention_input(std::size_t layer, const StageTask& task,
                                               const MatrixView<const Bf16>& q) const {
  return {q, key_rows<Bf16>(layer, task, 0, 1), key_rows<Bf16>(layer, task, 1, 1)};
}

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

/// A copy of rows that lie one behind another, for the weight task.
template <StageDevice D>
MatrixView<const Bf16> DeviceStage<D>::set_aside(const MatrixView<const Bf16>& rows) {
  const MatrixView<const Bf16> copy(set_aside_, rows.rows, rows.cols);
  const std::size_t numbers = rows.rows * rows.cols;
  device_.copy(Queue::compute, set_aside_, rows.data, numbers * sizeof(Bf16));
  set_aside_ += numbers;
  return copy;
}

template <StageDevice D>
template <class F>
void DeviceStage<D>::for_each_chunk(F&& f) {
  for (std::size_t row = 0; row < rows_.rows; row += options_.head_chunk_tokens) {
    const std::size_t rows = std::min(options_.head_chunk_tokens, rows_.rows - row);
    const MatrixView<const Bf16> normed = work_.normed.middle_rows(row, rows);
    const MatrixView<Bf16> logits = work_.logits.middle_rows(0, rows);
    const auto labels = tables_.labels.subspan(row, rows);
    const auto states = work_.states.first(rows);
    device_.multiply(Product::multiply, normed, ends().head, logits, Update::set);
    cross_entropy_part_by(launch(), MatrixView<const Bf16>(logits), 0, labels, states);
    f(normed, logits, labels, states, row);
  }
}

template <StageDevice D>
void DeviceStage<D>::head_forward() {
  const MatrixView<const Bf16> x = rows_;
  keep(Kept::output, 0, x);
  norm(x, ends().final_norm);
  for_each_chunk([&](const auto&, const auto&, auto labels, std::span<LogitState> states, std::size_t) {
    cross_entropy_loss_by(launch(), labels, states, loss_.data());
  });
}

/// Logits are computed again: kept, they would be the largest activations of all.
template <StageDevice D>
void DeviceStage<D>::head_backward() {
  const auto g = layout_.ends(gradients_.data());
  keep(Kept::output, 0, work_.x);
  norm(work_.x, ends().final_norm);
  for_each_chunk([&](const MatrixView<const Bf16>& normed, const MatrixView<Bf16>& logits, auto labels,
                     std::span<LogitState> states, std::size_t row) {
    cross_entropy_backward_by(launch(), logits, 0, labels, states, step_.label_weight());
    device_.multiply(Product::transposed_multiply, normed, logits, g.head, Update::add);
    device_.multiply(Product::multiply_transposed, logits, ends().head,
                     work_.dnormed.middle_rows(row, normed.rows), Update::set);
  });
  device_.fill(Queue::compute, std::as_writable_bytes(std::span(rows_.data, rows_.rows * rows_.cols)), 0);
  norm_backward(work_.x, ends().final_norm, g.final_norm);
}

}  // namespace slimpack::kernels::cuda
