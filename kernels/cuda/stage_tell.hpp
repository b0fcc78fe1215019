#pragma once

// What a `DeviceStage` tells the device of a task: included where one is instantiated.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/stage.hpp"
#include "kernels/cuda/token_order.hpp"
#include "kernels/model/member_rows.hpp"

namespace slimpack::kernels::cuda {

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
  member_rows(task, step_.program().block(), member_rows_);
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
  const Tokens block = step_.program().block();
  windows_ = ring_windows(task, options_.ring_tokens);
  for (std::size_t window = 0; window < windows_.size(); ++window) {
    for (std::size_t distance = 1; distance < members; ++distance) {
      const std::size_t other = (task.member + members - distance) % members;
      const std::size_t rows = ring_rows(windows_[window], task, other, block);
      const auto slices = ring_slices(windows_[window], task, other, block);
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
