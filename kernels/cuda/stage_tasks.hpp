#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/device/cross_entropy.hpp"
#include "kernels/cuda/device/embedding.hpp"
#include "kernels/cuda/device/kept_rows.hpp"
#include "kernels/cuda/device/rms_norm.hpp"
#include "kernels/cuda/device/rope.hpp"
#include "kernels/cuda/operators.hpp"
#include "kernels/cuda/stage.hpp"
#include "kernels/model/member_rows.hpp"

// What a `DeviceStage` does with a task, apart from its layers, and what it tells the device of it: included where one is
// instantiated.
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

/// Gives a task's work to the queue `compute`, and asks the device for nothing else, unless it is merged: so
/// it can be captured. What it is depends on the program, the places and what `begin_graphs` names.
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
                merged_task(task, options_, step_.program().owners()), reinterpret_cast<std::byte*>(units_));
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

/// Logits are recomputed: kept, they would be the largest activations of all.
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

/// What the device has to know of a task, in `data_`. @param device where it will lie.
template <StageDevice D>
TaskTables DeviceStage<D>::tell(const StageTask& task, std::byte* device) {
  data_.begin(device);
  TaskTables tables;
  tell_rows(task, tables);
  tell_pieces(task, tables);
  tell_attention(task, tables);
  tell_tokens(task, tables);
  return tables;
}

template <StageDevice D>
void DeviceStage<D>::tell_rows(const StageTask& task, TaskTables& tables) {
  words_.clear();
  for (const Slice& slice : task.owned) {
    for (Tokens t = slice.begin; t < slice.end; ++t) words_.push_back(static_cast<std::int32_t>(t));
  }
  tables.positions = data_.add(words_);
  words_.clear();
  for (const Slice& slice : by_heads(task) ? task.slices : task.owned) {
    std::size_t row = plan_.rows_below(slice.sample, slice.begin);
    for (Tokens t = slice.begin; t < slice.end; ++t, ++row) {
      const std::size_t at = task.pass == Pass::forward ? plan_.rows(slice.sample).keys + row
                                                        : plan_.gradient_row(slice.sample, row);
      words_.push_back(static_cast<std::int32_t>(at));
    }
  }
  tables.rows = data_.add(words_);
  if (!by_heads(task)) return;
  member_rows(task, step_.program().owners(), member_rows_);
  words_.clear();
  for (const auto& rows : member_rows_) {
    for (const std::size_t row : rows) words_.push_back(static_cast<std::int32_t>(row));
  }
  tables.order = data_.add(words_);
}

template <StageDevice D>
void DeviceStage<D>::tell_pieces(const StageTask& task, TaskTables& tables) {
  std::vector<KeptPiece> pieces;
  std::vector<std::int32_t> pages;
  words_.clear();
  plan_.fragments().for_each(task, [&](const auto& fragment, std::size_t row) {
    words_.insert(words_.end(), static_cast<std::size_t>(fragment.tokens.size()),
                  static_cast<std::int32_t>(pieces.size()));
    pieces.push_back({static_cast<std::int32_t>(row), static_cast<std::int32_t>(fragment.tokens.size()),
                      static_cast<std::int32_t>(fragment.recompute_layers),
                      static_cast<std::int32_t>(pages.size())});
    for (const UnitRun& run : fragment.memory) {
      for (std::size_t i = 0; i < run.count; ++i) pages.push_back(static_cast<std::int32_t>(run.begin + i));
    }
  });
  tables.piece_of = data_.add(words_);
  tables.pieces = data_.add(pieces);
  tables.pages = data_.add(pages);
}

/// Of slices whose keys are among so many rows. @param pieces of their gradients
template <StageDevice D>
AttentionItems DeviceStage<D>::tell_items(const StageTask& task, std::span<const AttentionSlice> slices,
                                          std::size_t queries, std::size_t keys,
                                          std::span<const std::int32_t> pieces) {
  const AttentionWork work = attention_work(slices, queries, keys, device_.attention_rows(), pieces);
  AttentionItems items;
  items.rows = work.rows;
  items.slices = data_.add(work.slices);
  items.queries = data_.add(work.queries);
  if (task.pass == Pass::backward) items.keys = data_.add(work.keys);
  return items;
}

/// A task's slices, whose queries are consecutive rows, with their keys' rows in the arena.
template <StageDevice D>
std::vector<AttentionSlice> DeviceStage<D>::attention_slices_of(const StageTask& task) const {
  std::vector<AttentionSlice> slices;
  std::size_t row = 0;
  for (const Slice& slice : task.slices) {
    const auto& sample = plan_.rows(slice.sample);
    const std::size_t prefix = plan_.rows_below(slice.sample, slice.begin),
                      tokens = plan_.rows_below(slice.sample, slice.end) - prefix;
    if (tokens == 0) continue;  // the other members of a ring have it
    slices.push_back({.query_begin = static_cast<std::int32_t>(row),
                      .tokens = static_cast<std::int32_t>(tokens),
                      .key_begin = static_cast<std::int32_t>(sample.keys),
                      .prefix = static_cast<std::int32_t>(prefix),
                      .gradient_piece = static_cast<std::int32_t>(sample.gradient_piece)});
    row += tokens;
  }
  return slices;
}

template <StageDevice D>
void DeviceStage<D>::tell_attention(const StageTask& task, TaskTables& tables) {
  rounds_.clear();
  if (part_.layers == 0) return;
  if (const auto* library = library_packs_.find(task)) {
    tables.lists = data_.add(library->lists);
    return;
  }
  const std::vector<AttentionSlice> slices = attention_slices_of(task);
  const std::size_t queries =
      slices.empty() ? 0 : static_cast<std::size_t>(slices.back().query_begin + slices.back().tokens);
  tables.attention =
      tell_items(task, slices, queries, plan_.units() * head_shares(task), gradient_pieces(task));
  if (in_ring(task)) tell_rounds(task);
}

template <StageDevice D>
void DeviceStage<D>::tell_rounds(const StageTask& task) {
  const std::size_t members = task.members.size();
  const SampleOwners& owners = step_.program().owners();
  windows_ = ring_windows(task, options_.ring_tokens, owners);
  for (std::size_t window = 0; window < windows_.size(); ++window) {
    for (std::size_t distance = 1; distance < members; ++distance) {
      const std::size_t other = (task.member + members - distance) % members;
      const std::size_t rows = ring_rows(windows_[window], other, owners);
      const auto slices = ring_slices(windows_[window], task, other, owners);
      rounds_.push_back({window, distance, rows,
                         tell_items(task, slices, static_cast<std::size_t>(task.owned_tokens), rows)});
    }
  }
}

template <StageDevice D>
void DeviceStage<D>::tell_tokens(const StageTask& task, TaskTables& tables) {
  words_.resize(static_cast<std::size_t>(task.owned_tokens));
  if (part_.last) {
    step_.for_each_label(task, [&](std::size_t row, std::int32_t label) { words_[row] = label; });
    tables.labels = data_.add(words_);
  }
  if (!part_.first) return;
  step_.for_each_id(task, [&](std::size_t row, std::int32_t id) { words_[row] = id; });
  if (task.pass == Pass::forward) {
    tables.ids = data_.add(words_);
    return;
  }
  const TokenOrder order = token_order(words_, part_.model.vocab);
  tables.ids = data_.add(order.ids);
  tables.begins = data_.add(order.begins);
  tables.tokens = data_.add(order.tokens);
}

}  // namespace slimpack::kernels::cuda
