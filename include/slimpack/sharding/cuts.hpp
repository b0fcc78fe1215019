#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "slimpack/core/flops.hpp"
#include "slimpack/core/packs.hpp"

namespace slimpack {

/// Rows of queries that a thread block of an attention kernel takes at a time. Documents whose chunks are at
/// least as long count as long: one more chunk costs them little.
inline constexpr Tokens attention_tile = 128;

/// Tokens that `slots` shares of a range get in addition to an equal even number: all of them get `each`, and
/// the first `more` of them one more.
struct RemainderShares {
  Tokens each = 0;
  Tokens more = 0;

  [[nodiscard]] constexpr Tokens of(Tokens slot) const { return each + (slot < more ? 1 : 0); }
  /// Of all slots before this one.
  [[nodiscard]] constexpr Tokens before(Tokens slot) const { return each * slot + std::min(slot, more); }
};

/// A document cut into `cp` shares ("slots") of nearly equal attention work, without padding (WLB-LLM,
/// section 5.1). Of `2 cp` equal chunks, slot j gets the j-th and the j-th from the end, which together have
/// the same work in each slot. The remainder, fewer than `2 cp` tokens, is divided among the slots as evenly
/// as possible:
/// - long documents: from the document's beginning, where a token has the least work, in runs of one or two
///   tokens, so that slots differ by no more than those tokens' work;
/// - short documents (chunks below a tile): the slot's first chunk is longer by them, so that a slot has no
///   more than two chunks; slots then differ by up to `cp` times a chunk's tokens in (query, key) pairs.
class DocumentCut {
 public:
  /// @pre the slice is not empty, cp > 0.
  constexpr DocumentCut(const Slice& document, std::int32_t cp)
      : begin_(document.begin),
        end_(document.end),
        chunk_(document.size() / (2 * Tokens{cp})),
        remainder_(document.size() % (2 * Tokens{cp})),
        shares_{remainder_ / cp, remainder_ % cp} {}

  [[nodiscard]] constexpr bool is_long() const { return chunk_ >= attention_tile; }
  [[nodiscard]] constexpr bool is_even() const { return remainder_ == 0; }
  [[nodiscard]] constexpr RemainderShares shares() const { return shares_; }

  /// Calls `visit(begin, end)` for each chunk of a slot, in the document's order: at most three, not empty,
  /// not adjacent.
  template <class Visit>
  constexpr void for_each_chunk(Tokens slot, Visit&& visit) const {
    const Tokens tail = end_ - (slot + 1) * chunk_, tail_end = tail + chunk_;
    Tokens head = begin_ + slot * chunk_ + (is_long() ? remainder_ : shares_.before(slot));
    const Tokens head_end = head + chunk_ + (is_long() ? 0 : shares_.of(slot));
    if (is_long()) {
      const Tokens run_end = begin_ + remainder_ - shares_.before(slot), run = run_end - shares_.of(slot);
      if (run_end == head) {
        head = run;
      } else if (run < run_end) {
        visit(run, run_end);
      }
    }
    if (head_end == tail) {
      if (head < tail_end) visit(head, tail_end);
      return;
    }
    if (head < head_end) visit(head, head_end);
    if (tail < tail_end) visit(tail, tail_end);
  }

  /// Twice the (query, key) pairs of a slot. O(1).
  [[nodiscard]] constexpr double twice_pairs(Tokens slot) const {
    double sum = 0.0;
    for_each_chunk(slot, [&](Tokens begin, Tokens end) { sum += twice_causal_pairs(begin, end); });
    return sum;
  }

 private:
  Tokens begin_, end_, chunk_, remainder_;
  RemainderShares shares_;
};

/// A sequence of documents cut into `cp` slots as if it were one document (per-sequence sharding): of `2 cp`
/// chunks whose lengths differ by at most one, slot j gets the j-th and the j-th from the end. The two middle
/// chunks are neighbours, so there are `2 cp - 1` ranges of tokens.
class SequenceCut {
 public:
  /// @pre tokens >= 0, cp > 0.
  constexpr SequenceCut(Tokens tokens, std::int32_t cp) : tokens_(tokens), cp_(cp) {
    assert(cp > 0);
    chunk_ = tokens / (2 * cp_);
    remainder_ = tokens % (2 * cp_);
  }

  [[nodiscard]] constexpr RemainderShares shares() const { return {remainder_ / cp_, remainder_ % cp_}; }
  [[nodiscard]] constexpr Tokens ranges() const { return 2 * cp_ - 1; }
  [[nodiscard]] constexpr Tokens slot_of(Tokens range) const { return std::min(range, 2 * cp_ - 2 - range); }

  /// The end of a range; it begins where the previous one ends.
  [[nodiscard]] constexpr Tokens end_of(Tokens range) const {
    if (range < cp_ - 1) return first(range + 1, std::min(remainder_, cp_));
    return tokens_ - first(2 * cp_ - 2 - range, std::max<Tokens>(remainder_ - cp_, 0));
  }

 private:
  /// Tokens of `count` chunks of which the first `longer` have one more token.
  [[nodiscard]] constexpr Tokens first(Tokens count, Tokens longer) const {
    return count * chunk_ + std::min(count, longer);
  }

  Tokens tokens_, cp_, chunk_ = 0, remainder_ = 0;
};

/// Calls `visit(range, chunk)` for each chunk of a per-sequence cut of some documents, in the sequence's
/// order; `chunk.sample` is the document's index. O(documents + cp).
/// @param chosen indices of the documents whose concatenation `cut` divides.
template <class Visit>
void for_each_sequence_chunk(std::span<const Slice> documents, std::span<const std::uint32_t> chosen,
                             const SequenceCut& cut, Visit&& visit) {
  Tokens range = 0, at = 0, end = cut.end_of(0);
  for (const std::uint32_t d : chosen) {
    const Slice& document = documents[d];
    const Tokens stop = at + document.size(), shift = document.begin - at;
    while (at < stop) {
      while (at == end) end = cut.end_of(++range);
      const Tokens next = std::min(end, stop);
      visit(range, Slice{d, at + shift, next + shift});
      at = next;
    }
  }
}

}  // namespace slimpack
