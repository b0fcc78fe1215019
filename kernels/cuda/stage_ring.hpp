#pragma once

// A `DeviceStage`'s attention of merged packs whose members share it by tokens (Liu et al., Ring Attention):
// included where one is instantiated.
//
// Keys and values are passed around in windows. While attention to a window runs, the window goes on to the
// next member, and the next one's comes. In backward, a member sends the gradients that it finds for a window
// to the owner at once; owners add them in the order of the rounds, so that sums have the same bits each
// time.
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/cuda/device/attention_launch.hpp"
#include "kernels/cuda/device/kept_rows.hpp"
#include "kernels/cuda/device/ring.hpp"
#include "kernels/cuda/stage.hpp"

namespace slimpack::kernels::cuda {

/// The workspace's attention and lse, which are those of own keys, become those of all members'.
template <StageDevice D>
void DeviceStage<D>::ring_forward(std::size_t layer, const StageTask& task, const MatrixView<const Bf16>& q) {
  const HeadShape heads = part_.heads();
  const std::span<float> sum(work_.ring_sum.data, work_.ring_sum.rows * work_.ring_sum.cols);
  device_.fill(Queue::compute, std::as_writable_bytes(sum), 0);
  accumulate_rows_by(launch(), work_.attention, work_.ring_sum);
  go_round(layer, task,
           [&](std::size_t round, const MatrixView<const Bf16>& k, const MatrixView<const Bf16>& v) {
             const AttentionItems& items = rounds_[round].items;
             if (items.queries.empty()) return;
             attention_by(launch(), heads, {q, k, v}, items, work_.ring_part, work_.ring_lse);
             merge_parts_by(launch(), heads, items, MatrixView<const Bf16>(work_.ring_part),
                            MatrixView<const float>(work_.ring_lse), work_.ring_sum, work_.lse);
           });
  set_rows_by(launch(), MatrixView<const float>(work_.ring_sum), work_.attention);
}

/// The gradients of queries in the workspace's dqkv, and the stored ones of keys and values, which are those
/// of own keys and own queries, become those of all members'.
template <StageDevice D>
void DeviceStage<D>::ring_backward(std::size_t layer, const StageTask& task) {
  const HeadShape heads = part_.heads();
  const MatrixView<Bf16> dq = work_.dqkv.middle_cols(0, heads.query_width());
  const std::span<float> sum(work_.ring_sum.data, work_.ring_sum.rows * work_.ring_sum.cols);
  device_.fill(Queue::compute, std::as_writable_bytes(sum), 0);
  accumulate_rows_by(launch(), dq, work_.ring_sum);
  go_round(
      layer, task, [&](std::size_t round, const MatrixView<const Bf16>& k, const MatrixView<const Bf16>& v) {
        const AttentionItems& items = rounds_[round].items;
        const MatrixView<float> made = work_.ring_made[round % 2].middle_rows(0, k.rows);
        device_.fill(Queue::compute, std::as_writable_bytes(std::span(made.data, made.rows * made.cols)), 0);
        attention_gradients_by(launch(), heads, {work_.q, k, v}, items, MatrixView<const float>(work_.lse),
                               MatrixView<const Bf16>(work_.dattention), MatrixView<const float>(work_.delta),
                               work_.ring_part, made.middle_cols(0, heads.kv_width()),
                               made.middle_cols(heads.kv_width(), heads.kv_width()));
        add_parts_by(launch(), heads, items, MatrixView<const Bf16>(work_.ring_part), work_.ring_sum);
        device_.record(made_[round % 2], Queue::compute);
        // During this round's attention.
        if (round > 0) bring_home(layer, task, round - 1);
      });
  if (!rounds_.empty()) bring_home(layer, task, rounds_.size() - 1);
  set_rows_by(launch(), MatrixView<const float>(work_.ring_sum), dq);
}

/// Calls f(round, keys, values) for what comes round. A window of own keys is gathered before the last round
/// of the one before, during which it leaves.
template <StageDevice D>
template <class F>
void DeviceStage<D>::go_round(std::size_t layer, const StageTask& task, F&& f) {
  if (rounds_.empty()) return;
  const std::size_t kv = part_.heads().kv_width();
  gather_window(layer, task, 0, 0);
  pass_keys(task, 0, 0, 1);
  std::size_t here = 1;
  for (std::size_t round = 0; round < rounds_.size(); ++round) {
    const bool is_last = round + 1 == rounds_.size();
    const bool is_new = !is_last && rounds_[round + 1].window != rounds_[round].window;
    const std::size_t next = (here + 1) % 3, after = (here + 2) % 3;
    device_.wait(Queue::compute, ring_[here].arrived);
    if (is_new) gather_window(layer, task, rounds_[round + 1].window, next);
    const MatrixView<const Bf16> came = work_.ring_keys[here].middle_rows(0, rounds_[round].rows);
    f(round, came.middle_cols(0, kv), came.middle_cols(kv, kv));
    device_.record(ring_[here].read, Queue::compute);
    if (is_last) return;
    pass_keys(task, round + 1, is_new ? next : here, is_new ? after : next);
    here = is_new ? after : next;
  }
}

/// Own keys and values of a window, in a place from which nothing is sent any more.
template <StageDevice D>
void DeviceStage<D>::gather_window(std::size_t layer, const StageTask& task, std::size_t window,
                                   std::size_t buffer) {
  const MatrixView<Bf16> stored = key_rows<Bf16>(layer, task, 0, 2);
  std::size_t at = 0;
  for (const RingPiece& piece : windows_[window].pieces) {
    const std::size_t first = plan_.rows(piece.keys.sample).keys + static_cast<std::size_t>(piece.first),
                      rows = ring_rows(piece, task.member, step_.program().owners());
    if (rows == 0) continue;
    set_rows_by(launch(), MatrixView<const Bf16>(stored.middle_rows(first, rows)),
                work_.ring_keys[buffer].middle_rows(at, rows));
    at += rows;
  }
  device_.record(ring_[buffer].arrived, Queue::compute);
}

/// Sends keys and values on to the next member, and gets a round's from the one before.
/// @param from, to places
template <StageDevice D>
void DeviceStage<D>::pass_keys(const StageTask& task, std::size_t round, std::size_t from, std::size_t to) {
  const std::size_t members = task.members.size(), row = 2 * part_.heads().kv_width();
  const RingRound& coming = rounds_[round];
  const std::size_t sent = coming.distance == 1
                               ? ring_rows(windows_[coming.window], task.member, step_.program().owners())
                               : rounds_[round - 1].rows;
  device_.wait(Queue::members, ring_[from].arrived);
  device_.wait(Queue::members, ring_[to].read);
  move(task, (task.member + 1) % members,
       std::as_writable_bytes(std::span(work_.ring_keys[from].data, sent * row)),
       (task.member + members - 1) % members,
       std::as_writable_bytes(std::span(work_.ring_keys[to].data, coming.rows * row)));
  device_.record(ring_[to].arrived, Queue::members);
}

/// Sends the gradients that a round has made to the owner of its keys, and adds those that another member has
/// made of own keys.
template <StageDevice D>
void DeviceStage<D>::bring_home(std::size_t layer, const StageTask& task, std::size_t round) {
  const std::size_t members = task.members.size(), row = 2 * part_.heads().kv_width();
  const RingRound& made = rounds_[round];
  const RingWindow& window = windows_[made.window];
  const std::size_t own = ring_rows(window, task.member, step_.program().owners());
  device_.wait(Queue::members, made_[round % 2]);
  device_.wait(Queue::members, added_);
  move(task, (task.member + members - made.distance) % members,
       std::as_writable_bytes(std::span(work_.ring_made[round % 2].data, made.rows * row)),
       (task.member + made.distance) % members,
       std::as_writable_bytes(std::span(work_.ring_came.data, own * row)));
  device_.record(came_, Queue::members);
  device_.wait(Queue::compute, came_);
  const MatrixView<float> stored = key_rows<float>(layer, task, 0, 2);
  std::size_t at = 0;
  for (const RingPiece& piece : window.pieces) {
    const std::size_t rows = ring_rows(piece, task.member, step_.program().owners());
    plan_.for_each_gradient_run(piece.keys.sample, static_cast<std::size_t>(piece.first), rows,
                                [&](std::size_t to, std::size_t count) {
                                  accumulate_rows_by(launch(), work_.ring_came.middle_rows(at, count),
                                                     stored.middle_rows(to, count));
                                  at += count;
                                });
  }
  device_.record(added_, Queue::compute);
}

/// Sends to a member and receives from one, in the members' queue.
template <StageDevice D>
void DeviceStage<D>::move(const StageTask& task, std::size_t to, std::span<std::byte> out, std::size_t from,
                          std::span<std::byte> in) {
  if (exchange_.is_on_device()) {
    const DeviceBlock send{to, out.data(), out.size()}, receive{from, in.data(), in.size()};
    return exchange_.on_device(task, {&send, 1}, {&receive, 1}, Queue::members);
  }
  MemberMessage message;
  message.send_sizes.resize(task.members.size());
  message.receive_sizes.resize(task.members.size());
  message.send_sizes[to] = out.size() / sizeof(Bf16);
  message.receive_sizes[from] = in.size() / sizeof(Bf16);
  exchange_.through_host(task, {&message, 1}, reinterpret_cast<const Bf16*>(out.data()),
                         reinterpret_cast<Bf16*>(in.data()), Queue::members);
}

}  // namespace slimpack::kernels::cuda
