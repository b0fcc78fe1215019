#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include "kernels/cuda/device/attention_launch.hpp"
#include "kernels/cuda/device/head_exchange.hpp"
#include "kernels/cuda/device/kept_rows.hpp"
#include "kernels/cuda/device/rms_norm.hpp"
#include "kernels/cuda/device/rope.hpp"
#include "kernels/cuda/device/swiglu.hpp"
#include "kernels/cuda/stage.hpp"

// What a `DeviceStage` does in a layer, with its attention, of packs of one pipeline and of merged ones, by our kernels
// or a library's: included where one is instantiated.
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

/// @param q, keys_values of the task's tokens. If merged, the workspace then also has the queries of own
/// heads.
template <StageDevice D>
void DeviceStage<D>::store_keys(std::size_t layer, const StageTask& task, const MatrixView<Bf16>& q,
                                const MatrixView<Bf16>& keys_values) {
  if (by_heads(task)) to_heads(task, shared(q, work_.head_q), shared(keys_values, work_.head_kv, 2));
  const MatrixView<const Bf16> from = by_heads(task) ? work_.head_kv : keys_values;
  store_keys_by(launch(), from, tables_.rows, key_rows<Bf16>(layer, task, 0, 2));
}

/// The workspace's attention and lse from queries, and the keys and values that are stored.
/// @param q if merged by heads, the workspace's of own heads are taken in their place
template <StageDevice D>
void DeviceStage<D>::attend(std::size_t layer, const StageTask& task, const MatrixView<Bf16>& q) {
  if (const auto* library = library_packs_.find(task)) {
    library->forward(pack_matrices(layer, task, q), device_.stream(Queue::compute));
    return;
  }
  if (!by_heads(task)) {
    attention_by(launch(), part_.heads(), attention_input(layer, task, q), tables_.attention, work_.attention,
                 work_.lse);
    if (in_ring(task)) ring_forward(layer, task, q);
    return;
  }
  attention_by(launch(), own_heads(task), attention_input(layer, task, work_.head_q), tables_.attention,
               work_.head_out, work_.head_lse);
  to_tokens(task, shared(work_.attention, work_.head_out), shared_per_head(work_.lse, work_.head_lse));
}

/// The workspace's dqkv, before the rotary embedding's gradient, from q, attention, lse and dattention.
template <StageDevice D>
void DeviceStage<D>::attend_backward(std::size_t layer, const StageTask& task) {
  if (by_heads(task)) return heads_backward(layer, task);
  const std::size_t query = part_.heads().query_width(), kv = part_.heads().kv_width();
  if (const auto* library = library_packs_.find(task)) {
    library->backward(pack_matrices(layer, task, work_.q), device_.stream(Queue::compute));
  } else {
    attention_backward_by(launch(), part_.heads(), attention_input(layer, task, work_.q), tables_.attention,
                          MatrixView<const Bf16>(work_.attention), MatrixView<const float>(work_.lse),
                          MatrixView<const Bf16>(work_.dattention), work_.delta,
                          work_.dqkv.middle_cols(0, query), key_rows<float>(layer, task, 0, 1),
                          key_rows<float>(layer, task, 1, 1));
  }
  if (in_ring(task)) ring_backward(layer, task);
  load_key_gradients_by(launch(), MatrixView<const float>(key_rows<float>(layer, task, 0, 2)), tables_.rows,
                        work_.dqkv.middle_cols(query, 2 * kv));
}

template <StageDevice D>
void DeviceStage<D>::heads_backward(std::size_t layer, const StageTask& task) {
  const std::size_t query = part_.heads().query_width(), kv = part_.heads().kv_width();
  // Deltas in place of outputs: numbers per head instead of rows.
  attention_delta_by(launch(), part_.heads(), MatrixView<const Bf16>(work_.attention),
                     MatrixView<const Bf16>(work_.dattention), work_.delta);
  to_heads(task, shared(work_.q, work_.head_q), shared(work_.dattention, work_.head_dout),
           shared_per_head(work_.lse, work_.head_lse), shared_per_head(work_.delta, work_.head_delta));
  attention_gradients_by(launch(), own_heads(task), attention_input(layer, task, work_.head_q),
                         tables_.attention, MatrixView<const float>(work_.head_lse),
                         MatrixView<const Bf16>(work_.head_dout), MatrixView<const float>(work_.head_delta),
                         work_.head_dq, key_rows<float>(layer, task, 0, 1),
                         key_rows<float>(layer, task, 1, 1));
  load_key_gradients_by(launch(), MatrixView<const float>(key_rows<float>(layer, task, 0, 2)), tables_.rows,
                        work_.head_kv);
  to_tokens(task, shared(work_.dqkv.middle_cols(0, query), work_.head_dq),
            shared(work_.dqkv.middle_cols(query, 2 * kv), work_.head_kv, 2));
}

template <StageDevice D>
template <class... T>
void DeviceStage<D>::to_heads(const StageTask& task, const SharedMatrix<T>&... matrices) {
  std::size_t i = 0;
  const auto give = [&]<class M>(const SharedMatrix<M>& m) {
    member_columns_by(launch(), m.tokens, task.members.size(), m.sections,
                      reinterpret_cast<M*>(work_.sent.data() + messages_[i++].sent), true);
  };
  const auto take = [&]<class M>(const SharedMatrix<M>& m) {
    ordered_rows_by(launch(), m.heads, tables_.order.data(),
                    reinterpret_cast<M*>(work_.received.data() + messages_[i++].received), false);
  };
  begin_exchange(task, {matrices.row_numbers()...}, true);
  (give(matrices), ...);
  exchange(task);
  i = 0;
  (take(matrices), ...);
}

template <StageDevice D>
template <class... T>
void DeviceStage<D>::to_tokens(const StageTask& task, const SharedMatrix<T>&... matrices) {
  std::size_t i = 0;
  const auto give = [&]<class M>(const SharedMatrix<M>& m) {
    ordered_rows_by(launch(), m.heads, tables_.order.data(),
                    reinterpret_cast<M*>(work_.sent.data() + messages_[i++].sent), true);
  };
  const auto take = [&]<class M>(const SharedMatrix<M>& m) {
    member_columns_by(launch(), m.tokens, task.members.size(), m.sections,
                      reinterpret_cast<M*>(work_.received.data() + messages_[i++].received), false);
  };
  begin_exchange(task, {matrices.row_numbers()...}, false);
  (give(matrices), ...);
  exchange(task);
  i = 0;
  (take(matrices), ...);
}

/// Finds where the messages of some matrices begin, in one buffer.
/// @param row_numbers bf16 numbers of a token that a member gets, of each matrix
template <StageDevice D>
void DeviceStage<D>::begin_exchange(const StageTask& task, std::initializer_list<std::size_t> row_numbers,
                                    bool tokens_to_heads) {
  const std::size_t own = member_rows_[task.member].size() * task.members.size(),
                    all = static_cast<std::size_t>(task.tokens);
  messages_.clear();
  std::size_t sent = 0, received = 0;
  for (const std::size_t numbers : row_numbers) {
    MemberMessage message{.sent = sent, .received = received};
    for (const auto& rows : member_rows_) {
      const std::size_t others = rows.size() * numbers, mine = member_rows_[task.member].size() * numbers;
      message.send_sizes.push_back(tokens_to_heads ? mine : others);
      message.receive_sizes.push_back(tokens_to_heads ? others : mine);
    }
    messages_.push_back(std::move(message));
    sent += (tokens_to_heads ? own : all) * numbers;
    received += (tokens_to_heads ? all : own) * numbers;
  }
}

/// What was gathered goes to the members.
template <StageDevice D>
void DeviceStage<D>::exchange(const StageTask& task) {
  if (exchange_.is_on_device()) return exchange_on_device(task);
  exchange_.through_host(task, messages_, work_.sent.data(), work_.received.data(), Queue::compute);
}

template <StageDevice D>
void DeviceStage<D>::exchange_on_device(const StageTask& task) {
  std::vector<DeviceBlock> sends, receives;
  for (const MemberMessage& m : messages_) {
    Bf16 *from = work_.sent.data() + m.sent, *to = work_.received.data() + m.received;
    for (std::size_t member = 0; member < task.members.size(); ++member) {
      const std::size_t out = m.send_sizes[member], in = m.receive_sizes[member];
      if (member == task.member) {
        device_.copy(Queue::compute, to, from, out * sizeof(Bf16));
      } else {
        sends.push_back({member, reinterpret_cast<std::byte*>(from), out * sizeof(Bf16)});
        receives.push_back({member, reinterpret_cast<std::byte*>(to), in * sizeof(Bf16)});
      }
      from += out;
      to += in;
    }
  }
  exchange_.on_device(task, sends, receives, Queue::compute);
}

/// Asks for the attention of all tasks of a step, once their keys' places are known.
template <StageDevice D>
void DeviceStage<D>::plan_attention(const StageProgram& program) {
  library_packs_.clear();
  require(options_.attention == AttentionChoice::ours || library_, "a library's attention is chosen for ",
          name(), ", but none was given; expected set_attention before its first step");
  for (const StageTask& task : program.tasks()) {
    if (task.pass == Pass::weight || part_.layers == 0) continue;
    if (options_.attention == AttentionChoice::ours) {
      library_packs_.add_ours();
    } else {
      library_packs_.add(task, ask_library(task));
    }
  }
}

template <StageDevice D>
PlannedAttention<typename D::Stream> DeviceStage<D>::ask_library(const StageTask& task) {
  PlannedAttention<typename D::Stream> attention;
  if (task.merged()) {
    attention.refusal = "members of a merged pack share its attention";
    return attention;
  }
  const HeadShape heads = part_.heads();
  const auto query = static_cast<std::int64_t>(heads.query_width()),
             all = query + 2 * static_cast<std::int64_t>(heads.kv_width()),
             unit = static_cast<std::int64_t>(this->unit());
  const bool backward = task.pass == Pass::backward;
  attention =
      library_({.shape = heads,
                .slices = attention_slices_of(task),
                .tokens = static_cast<std::size_t>(task.owned_tokens),
                .cache = plan_.units(),
                .strides = {.q = backward ? query : all, .k = unit, .v = unit, .out = query, .dq = all},
                .gradients = backward,
                .workspace = library_memory_.size(),
                .gradient_pieces = gradient_pieces(task)});
  if (attention.refusal.empty() && attention.workspace_bytes > library_memory_.size()) {
    attention.refusal =
        concat("it needs a workspace of ", attention.workspace_bytes, " bytes, of ", library_memory_.size());
  }
  return attention;
}

template <StageDevice D>
PackMatrices DeviceStage<D>::pack_matrices(std::size_t layer, const StageTask& task,
                                           const MatrixView<const Bf16>& q) {
  PackMatrices m{.in = attention_input(layer, task, q),
                 .out = work_.attention,
                 .lse = work_.lse,
                 .dout = work_.dattention,
                 .dq = {},
                 .dk = {},
                 .dv = {},
                 .lists = tables_.lists.data(),
                 .workspace = library_memory_};
  if (task.pass == Pass::forward) return m;
  m.dq = work_.dqkv.middle_cols(0, part_.heads().query_width());
  m.dk = key_rows<float>(layer, task, 0, 1);
  m.dv = key_rows<float>(layer, task, 1, 1);
  return m;
}

}  // namespace slimpack::kernels::cuda
