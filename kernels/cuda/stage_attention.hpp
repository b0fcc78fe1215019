#pragma once

// A `DeviceStage`'s attention, of packs of one pipeline and of merged ones: included where one is
// instantiated.
#include <cstddef>
#include <numeric>

#include "kernels/cuda/device/attention_launch.hpp"
#include "kernels/cuda/device/head_exchange.hpp"
#include "kernels/cuda/device/kept_rows.hpp"
#include "kernels/cuda/stage.hpp"

namespace slimpack::kernels::cuda {

/// @param keys_values of the task's tokens.
template <StageDevice D>
void DeviceStage<D>::store_keys(std::size_t layer, const StageTask& task,
                                const MatrixView<Bf16>& keys_values) {
  if (task.merged()) to_heads(task, strided(keys_values), strided(work_.head_kv), 2);
  const MatrixView<const Bf16> from = task.merged() ? work_.head_kv : keys_values;
  store_keys_by(launch(), from, tables_.rows, key_rows<Bf16>(layer, task, 0, 2));
}

/// The workspace's attention and lse from queries, and the keys and values that are stored.
template <StageDevice D>
void DeviceStage<D>::attend(std::size_t layer, const StageTask& task, const MatrixView<Bf16>& q) {
  if (!task.merged()) {
    attention_by(launch(), part_.heads(), attention_input(layer, task, q), tables_.attention, work_.attention,
                 work_.lse);
    return;
  }
  to_heads(task, strided(q), strided(work_.head_q));
  attention_by(launch(), own_heads(task), attention_input(layer, task, work_.head_q), tables_.attention,
               work_.head_out, work_.head_lse);
  to_tokens(task, strided(work_.head_out), strided(work_.attention));
  to_tokens(task, transposed(work_.head_lse), transposed(work_.lse));
}

/// The workspace's dqkv, before the rotary embedding's gradient, from q, attention, lse and dattention.
template <StageDevice D>
void DeviceStage<D>::attend_backward(std::size_t layer, const StageTask& task) {
  if (task.merged()) return heads_backward(layer, task);
  const std::size_t query = part_.heads().query_width(), kv = part_.heads().kv_width();
  attention_backward_by(launch(), part_.heads(), attention_input(layer, task, work_.q), tables_.attention,
                        MatrixView<const Bf16>(work_.attention), MatrixView<const float>(work_.lse),
                        MatrixView<const Bf16>(work_.dattention), work_.delta,
                        work_.dqkv.middle_cols(0, query), key_rows<float>(layer, task, 0, 1),
                        key_rows<float>(layer, task, 1, 1));
  load_key_gradients_by(launch(), MatrixView<const float>(key_rows<float>(layer, task, 0, 2)), tables_.rows,
                        work_.dqkv.middle_cols(query, 2 * kv));
}

template <StageDevice D>
void DeviceStage<D>::heads_backward(std::size_t layer, const StageTask& task) {
  const std::size_t query = part_.heads().query_width(), kv = part_.heads().kv_width();
  to_heads(task, strided(work_.q), strided(work_.head_q));
  to_heads(task, strided(work_.attention), strided(work_.head_out));
  to_heads(task, strided(work_.dattention), strided(work_.head_dout));
  to_heads(task, transposed(work_.lse), transposed(work_.head_lse));
  attention_backward_by(launch(), own_heads(task), attention_input(layer, task, work_.head_q),
                        tables_.attention, MatrixView<const Bf16>(work_.head_out),
                        MatrixView<const float>(work_.head_lse), MatrixView<const Bf16>(work_.head_dout),
                        work_.head_delta, work_.head_dq, key_rows<float>(layer, task, 0, 1),
                        key_rows<float>(layer, task, 1, 1));
  load_key_gradients_by(launch(), MatrixView<const float>(key_rows<float>(layer, task, 0, 2)), tables_.rows,
                        work_.head_kv);
  to_tokens(task, strided(work_.head_dq), strided(work_.dqkv.middle_cols(0, query)));
  to_tokens(task, strided(work_.head_kv), strided(work_.dqkv.middle_cols(query, 2 * kv)), 2);
}

template <StageDevice D>
template <class T>
void DeviceStage<D>::to_heads(const StageTask& task, const Strided<T>& tokens, const Strided<T>& heads,
                              std::size_t sections) {
  member_columns_by(launch(), tokens, task.members.size(), sections, reinterpret_cast<T*>(work_.sent.data()),
                    true);
  exchange(task, heads.cols * sizeof(T) / sizeof(Bf16), true);
  ordered_rows_by(launch(), heads, tables_.order.data(), reinterpret_cast<T*>(work_.received.data()), false);
}

template <StageDevice D>
template <class T>
void DeviceStage<D>::to_tokens(const StageTask& task, const Strided<T>& heads, const Strided<T>& tokens,
                               std::size_t sections) {
  ordered_rows_by(launch(), heads, tables_.order.data(), reinterpret_cast<T*>(work_.sent.data()), true);
  exchange(task, heads.cols * sizeof(T) / sizeof(Bf16), false);
  member_columns_by(launch(), tokens, task.members.size(), sections,
                    reinterpret_cast<T*>(work_.received.data()), false);
}

/// What was gathered goes to the members, through the host. @param row_numbers bf16 numbers of a token that a
/// member gets.
template <StageDevice D>
void DeviceStage<D>::exchange(const StageTask& task, std::size_t row_numbers, bool tokens_to_heads) {
  require(static_cast<bool>(exchange_), to_string(task), " is merged; expected an all-to-all between its ",
          task.members.size(), " members");
  send_sizes_.clear();
  receive_sizes_.clear();
  for (const auto& rows : member_rows_) {
    const std::size_t others = rows.size() * row_numbers,
                      own = member_rows_[task.member].size() * row_numbers;
    send_sizes_.push_back(tokens_to_heads ? own : others);
    receive_sizes_.push_back(tokens_to_heads ? others : own);
  }
  const std::size_t out = std::accumulate(send_sizes_.begin(), send_sizes_.end(), std::size_t{0}),
                    in = std::accumulate(receive_sizes_.begin(), receive_sizes_.end(), std::size_t{0});
  if (sent_.size() < out) sent_ = HostNumbers<D>(device_, out);
  device_.copy(Queue::compute, sent_.data(), work_.sent.data(), out * sizeof(Bf16));
  device_.record(gathered_, Queue::compute);
  device_.wait(gathered_);  // and so for what the last exchange has brought
  if (received_.size() < in) received_ = HostNumbers<D>(device_, in);
  exchange_(task, {sent_.data(), out}, send_sizes_, {received_.data(), in}, receive_sizes_);
  device_.copy(Queue::compute, work_.received.data(), received_.data(), in * sizeof(Bf16));
}

}  // namespace slimpack::kernels::cuda
