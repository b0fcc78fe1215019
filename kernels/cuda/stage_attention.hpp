#pragma once

// A `DeviceStage`'s attention, of packs of one pipeline and of merged ones: included where one is
// instantiated.
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include "kernels/cuda/device/attention_launch.hpp"
#include "kernels/cuda/device/head_exchange.hpp"
#include "kernels/cuda/device/kept_rows.hpp"
#include "kernels/cuda/stage.hpp"

namespace slimpack::kernels::cuda {

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

}  // namespace slimpack::kernels::cuda
