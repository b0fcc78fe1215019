#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/sharding/context_shards.hpp"
#include "slimpack/sharding/cuts.hpp"
#include "slimpack/sharding/deal.hpp"

namespace slimpack {

/// Checks that documents can be sharded. @throws InvalidInput if `cp` is not positive or exceeds the tokens,
/// or naming the first document that has no tokens. @returns the tokens of the sequence. O(documents).
inline Tokens validate_sequence(std::span<const Slice> documents, std::int32_t cp) {
  require(cp > 0, "cp is ", cp, "; expected a positive number of ranks");
  Tokens tokens = 0;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    const Slice& slice = documents[d];
    require(0 <= slice.begin && slice.begin < slice.end && slice.end <= Tokens{1} << 40, "document ", d,
            " has tokens ", slice.begin, " to ", slice.end, "; expected a range below 2^40, not empty");
    tokens += slice.size();
  }
  require(cp <= tokens, "cp is ", cp, "; expected at most the ", tokens, " tokens of the sequence");
  return tokens;
}

/// Divides sequences of documents over context-parallel ranks (WLB-LLM, section 5.1), and keeps its memory
/// between calls. The number of ranks can be anything up to the tokens. Nothing is padded: ranks' tokens
/// differ by at most one over the whole sequence, whatever the lengths.
class ContextSharder {
 public:
  /// Each marked document is sharded by itself, the others as one sequence in their order. If all are marked,
  /// this is per-document sharding; if none is, per-sequence sharding.
  /// @param documents not empty; `sample` is ignored. A slice attends to all of its document before it.
  /// @param per_document one entry per document, not zero if it is sharded by itself.
  /// @param out is overwritten; its memory is reused.
  /// @throws InvalidInput as `validate_sequence` does, or if `per_document` has another size.
  /// Complexity: O(documents log documents + marked cp log cp + chunks).
  void shard(std::span<const Slice> documents, std::int32_t cp, std::span<const std::uint8_t> per_document,
             ContextShards& out) {
    out.tokens = validate_sequence(documents, cp);
    require(per_document.size() == documents.size(), "there are marks for ", per_document.size(), " of ",
            documents.size(), " documents; expected one each");
    ranks_ = static_cast<std::size_t>(cp);
    divide(documents, per_document);
    dealer_.reset(cp);
    deal_documents(documents, cp);
    const SequenceCut cut(together_tokens_, cp);
    cut_sequence(documents, cut);
    emit(cut, out);
    fill_offsets(documents, out.offsets);
  }

 private:
  void divide(std::span<const Slice> documents, std::span<const std::uint8_t> per_document) {
    alone_.clear();
    together_.clear();
    together_tokens_ = 0;
    for (std::size_t d = 0; d < documents.size(); ++d) {
      (per_document[d] != 0 ? alone_ : together_).push_back(static_cast<std::uint32_t>(d));
      if (per_document[d] == 0) together_tokens_ += documents[d].size();
    }
  }

  /// The longest documents first: short ones, whose slots differ, then balance what remains.
  void deal_documents(std::span<const Slice> documents, std::int32_t cp) {
    order_.clear();
    cuts_.clear();
    for (std::size_t i = 0; i < alone_.size(); ++i) {
      cuts_.emplace_back(documents[alone_[i]], cp);
      order_.emplace_back(-documents[alone_[i]].size(), static_cast<std::uint32_t>(i));
    }
    std::sort(order_.begin(), order_.end());
    slot_.resize(alone_.size() * ranks_);
    for (const auto& [length, i] : order_) {
      std::uint32_t* const slots = slot_.data() + i * ranks_;
      dealer_.deal(cuts_[i], [&](std::uint32_t rank, std::uint32_t slot) { slots[rank] = slot; });
    }
  }

  void cut_sequence(std::span<const Slice> documents, const SequenceCut& cut) {
    chunks_.clear();
    range_begin_.assign(static_cast<std::size_t>(cut.ranges()) + 1, 0);
    sequence_slot_.assign(ranks_, 0);
    pairs_.assign(ranks_, 0.0);
    for_each_sequence_chunk(documents, together_, cut, [&](Tokens range, const Slice& chunk) {
      chunks_.push_back(chunk);
      range_begin_[static_cast<std::size_t>(range) + 1] = chunks_.size();
      pairs_[static_cast<std::size_t>(cut.slot_of(range))] += twice_causal_pairs(chunk.begin, chunk.end);
    });
    for (std::size_t i = 1; i < range_begin_.size(); ++i) {
      range_begin_[i] = std::max(range_begin_[i], range_begin_[i - 1]);
    }
    dealer_.deal(cut, pairs_, [&](std::uint32_t rank, std::uint32_t slot) { sequence_slot_[rank] = slot; });
  }

  [[nodiscard]] std::span<const Slice> range(std::size_t i) const {
    return {chunks_.data() + range_begin_[i], chunks_.data() + range_begin_[i + 1]};
  }

  /// Each rank's chunks, those of both kinds merged into the sequence's order.
  void emit(const SequenceCut& cut, ContextShards& out) {
    out.ranks.clear();
    out.ranks.reserve(ranks_, chunks_.size() + alone_.size() * 3 * ranks_);
    for (std::size_t r = 0; r < ranks_; ++r) {
      const std::size_t head = sequence_slot_[r], last = static_cast<std::size_t>(cut.ranges()) - 1;
      std::size_t next = 0;  // place in `alone_`
      const auto emit_alone = [&](std::uint32_t below) {
        for (; next < alone_.size() && alone_[next] < below; ++next) {
          const std::uint32_t d = alone_[next];
          cuts_[next].for_each_chunk(slot_[next * ranks_ + r], [&](Tokens begin, Tokens end) {
            out.ranks.add({d, begin, end});
          });
        }
      };
      const auto emit_range = [&](std::size_t i) {
        for (const Slice& chunk : range(i)) {
          emit_alone(chunk.sample);
          out.ranks.add(chunk);
        }
      };
      emit_range(head);
      if (last - head != head) emit_range(last - head);
      emit_alone(std::numeric_limits<std::uint32_t>::max());
      out.ranks.close();
    }
  }

  static void fill_offsets(std::span<const Slice> documents, std::vector<Tokens>& offsets) {
    offsets.clear();
    offsets.reserve(documents.size());
    Tokens at = 0;
    for (const Slice& document : documents) {
      offsets.push_back(at - document.begin);
      at += document.size();
    }
  }

  detail::SlotDealer dealer_;
  std::vector<std::uint32_t> alone_, together_;  // documents sharded alone and as a sequence, ascending
  Tokens together_tokens_ = 0;
  std::size_t ranks_ = 0;
  std::vector<std::pair<Tokens, std::uint32_t>> order_;
  std::vector<DocumentCut> cuts_;             // [place in alone_]
  std::vector<std::uint32_t> slot_;           // [place in alone_][rank]
  std::vector<std::uint32_t> sequence_slot_;  // [rank]
  std::vector<Slice> chunks_;                 // of the sequence, by range
  std::vector<std::size_t> range_begin_;
  std::vector<double> pairs_;  // of each slot of the sequence
};

/// Per-sequence sharding: the sequence as if it were one document, in `2 cp` chunks whose lengths differ by
/// at most one; rank r gets the r-th chunk and the r-th from the end (WLB-LLM, section 3.1). Work is balanced
/// only for a single document. @throws InvalidInput as `validate_sequence` does. O(documents + cp).
[[nodiscard]] inline ContextShards per_sequence_shards(std::span<const Slice> documents, std::int32_t cp) {
  ContextShards out;
  ContextSharder().shard(documents, cp, std::vector<std::uint8_t>(documents.size(), 0), out);
  return out;
}

/// Per-document sharding: each document by itself, in `2 cp` equal chunks of which a rank gets two from
/// opposite ends, and its remainder divided without padding (WLB-LLM, section 5.1; `DocumentCut`). Tokens of
/// ranks differ by at most one over the whole sequence.
/// @throws InvalidInput as `validate_sequence` does. O(documents log documents + documents cp log cp).
[[nodiscard]] inline ContextShards per_document_shards(std::span<const Slice> documents, std::int32_t cp) {
  ContextShards out;
  ContextSharder().shard(documents, cp, std::vector<std::uint8_t>(documents.size(), 1), out);
  return out;
}

/// Both in one sequence: each marked document by itself, the others as one sequence.
/// @param per_document one entry per document. @throws InvalidInput as `ContextSharder::shard` does.
[[nodiscard]] inline ContextShards mixed_shards(std::span<const Slice> documents, std::int32_t cp,
                                                std::span<const std::uint8_t> per_document) {
  ContextShards out;
  ContextSharder().shard(documents, cp, per_document, out);
  return out;
}

}  // namespace slimpack
