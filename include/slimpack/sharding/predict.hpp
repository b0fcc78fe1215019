#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/flops.hpp"
#include "slimpack/sharding/attention_model.hpp"
#include "slimpack/sharding/context.hpp"
#include "slimpack/sharding/cuts.hpp"
#include "slimpack/sharding/deal.hpp"

namespace slimpack {

/// Predicts how long the attention of a sequence takes on the slowest rank, for any choice of the documents that are
/// sharded by themselves; the shards themselves are not made. Keeps its memory between calls.
///
/// Marks say which documents these are, in the sequence's order, as `ContextSharder::shard` takes them. The i-th document
/// is the i-th longest.
template <AttentionModel M>
class ShardingPredictor {
 public:
  explicit ShardingPredictor(M model) : model_(std::move(model)) {}

  [[nodiscard]] const M& model() const { return model_; }

  /// Takes the sequence of the calls below. @param documents as `ContextSharder::shard` takes them; kept.
  /// @throws InvalidInput as `validate_sequence` does. O(d log d + d cp) prices of chunks for d documents.
  void begin(std::span<const Slice> documents, std::int32_t cp) {
    validate_sequence(documents, cp);
    documents_ = documents;
    cp_ = cp;
    prepare();
  }

  [[nodiscard]] std::size_t documents() const { return order_.size(); }
  /// Place of the i-th longest document in the sequence.
  [[nodiscard]] std::size_t place(std::size_t i) const { return order_[i].second; }

  /// Seconds of each rank if the documents were divided perfectly, and nothing was lost by cutting them.
  [[nodiscard]] AttentionSeconds divided() const {
    AttentionSeconds seconds = model_.launch_seconds();
    seconds += {whole_.forward / cp_, whole_.backward / cp_};
    return seconds;
  }

  /// Starts again with nothing dealt.
  void restart() {
    dealer_.reset(cp_);
    seconds_.assign(ranks(), {});
  }

  /// Deals the i-th longest document by itself.
  void deal_alone(std::size_t i) {
    const AttentionSeconds* const slots = slot_seconds_.data() + i * ranks();
    dealer_.deal(cuts_[i], [&](std::uint32_t rank, std::uint32_t slot) { seconds_[rank] += slots[slot]; });
  }

  /// Seconds of the slowest rank in each pass after the unmarked documents are dealt as a sequence. What was
  /// dealt before, the marked ones, is not changed.
  [[nodiscard]] AttentionSeconds with_sequence(std::span<const std::uint8_t> marks) {
    together_.clear();
    Tokens tokens = 0;
    for (std::size_t d = 0; d < documents_.size(); ++d) {
      if (marks[d] != 0) continue;
      together_.push_back(static_cast<std::uint32_t>(d));
      tokens += documents_[d].size();
    }
    const SequenceCut cut(tokens, cp_);
    pairs_.assign(ranks(), 0.0);
    sequence_seconds_.assign(ranks(), {});
    for_each_sequence_chunk(documents_, together_, cut, [&](Tokens range, const Slice& chunk) {
      const auto slot = static_cast<std::size_t>(cut.slot_of(range));
      pairs_[slot] += twice_causal_pairs(chunk.begin, chunk.end);
      const bool whole = chunk.size() == documents_[chunk.sample].size();
      sequence_seconds_[slot] +=
          whole ? whole_seconds_[chunk.sample] : model_.chunk_seconds(chunk.begin, chunk.end);
    });
    AttentionSeconds slowest;
    sequence_dealer_ = dealer_;
    sequence_dealer_.deal(cut, pairs_, [&](std::uint32_t rank, std::uint32_t slot) {
      AttentionSeconds sum = seconds_[rank];
      sum += sequence_seconds_[slot];
      slowest.forward = std::max(slowest.forward, sum.forward);
      slowest.backward = std::max(slowest.backward, sum.backward);
    });
    slowest += model_.launch_seconds();
    return slowest;
  }

  /// The same for any marks, starting with nothing dealt. @throws InvalidInput if they are not one for each document.
  /// O(documents cp log cp).
  [[nodiscard]] AttentionSeconds seconds(std::span<const std::uint8_t> marks) {
    require(marks.size() == documents(), "there are marks for ", marks.size(), " of ", documents(),
            " documents; expected one each");
    restart();
    for (std::size_t i = 0; i < documents(); ++i) {
      if (marks[place(i)] != 0) deal_alone(i);
    }
    return with_sequence(marks);
  }

 private:
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(cp_); }

  /// Prices every slot of every document, the longest document first.
  void prepare() {
    order_.clear();
    for (std::size_t d = 0; d < documents_.size(); ++d) {
      order_.emplace_back(-documents_[d].size(), static_cast<std::uint32_t>(d));
    }
    std::sort(order_.begin(), order_.end());
    cuts_.clear();
    slot_seconds_.clear();
    whole_ = {};
    whole_seconds_.resize(documents_.size());
    for (const auto& [length, d] : order_) {
      const Slice& document = documents_[d];
      const DocumentCut& cut = cuts_.emplace_back(document, cp_);
      for (Tokens slot = 0; slot < cp_; ++slot) {
        AttentionSeconds sum;
        cut.for_each_chunk(slot, [&](Tokens b, Tokens e) { sum += model_.chunk_seconds(b, e); });
        slot_seconds_.push_back(sum);
      }
      whole_seconds_[d] = model_.chunk_seconds(document.begin, document.end);
      whole_ += whole_seconds_[d];
    }
  }

  M model_;
  std::span<const Slice> documents_;
  std::int32_t cp_ = 1;
  std::vector<std::pair<Tokens, std::uint32_t>> order_;  // by decreasing length
  std::vector<DocumentCut> cuts_;                        // in that order
  std::vector<AttentionSeconds> slot_seconds_;           // [document in that order][slot]
  std::vector<AttentionSeconds> whole_seconds_;          // of each document, uncut
  AttentionSeconds whole_;                               // their sum
  detail::SlotDealer dealer_, sequence_dealer_;
  std::vector<AttentionSeconds> seconds_, sequence_seconds_;  // of each rank; of each slot of the sequence
  std::vector<std::uint32_t> together_;
  std::vector<double> pairs_;
};

}  // namespace slimpack
