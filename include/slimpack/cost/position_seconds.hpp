#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/packs.hpp"
#include "slimpack/sharding/attention_model.hpp"

namespace slimpack {

/// Seconds of a chunk in one pass. A model may have `chunk_seconds(begin, end, pass)` if that is faster than both passes.
template <AttentionModel A>
[[nodiscard]] double chunk_seconds(const A& model, Tokens begin, Tokens end, Pass pass) {
  if constexpr (requires { model.chunk_seconds(begin, end, pass); }) {
    return model.chunk_seconds(begin, end, pass);
  } else {
    const AttentionSeconds both = model.chunk_seconds(begin, end);
    return pass == Pass::forward ? both.forward : both.backward;
  }
}

/// The ranges of tokens that one of several ranks holds of a sample that is shared by position, numbered from the
/// sample's beginning. They are those of `for_each_owned_range` for an endless sample.
class PositionRanges {
 public:
  /// @pre ranks > 1, rank < ranks, block > 0.
  constexpr PositionRanges(std::size_t ranks, std::size_t rank, Tokens block)
      : ranks_(static_cast<Tokens>(ranks)), rank_(static_cast<Tokens>(rank)), block_(block) {}

  [[nodiscard]] constexpr Slice operator[](Tokens i) const {
    const Tokens round = 2 * ranks_;
    if (joins_rounds()) return of(i == 0 ? 0 : round * i - 1, round * i + 1);
    if (joins_within()) return of(round * i + rank_, round * i + rank_ + 2);
    const Tokens chunk = round * (i / 2) + (i % 2 == 0 ? rank_ : round - 1 - rank_);
    return of(chunk, chunk + 1);
  }

  /// How many of the ranges begin before a token.
  [[nodiscard]] constexpr Tokens beginning_before(Tokens token) const {
    const Tokens chunks = chunks_below(token, 0);
    if (joins_rounds()) return chunks == 0 ? 0 : chunks / 2 + 1;
    return joins_within() ? (chunks + 1) / 2 : chunks;
  }
  /// How many of them end at a token or before.
  [[nodiscard]] constexpr Tokens ended_at(Tokens token) const {
    const Tokens chunks = chunks_below(token + 1, block_);
    if (joins_rounds()) return (chunks + 1) / 2;
    return joins_within() ? chunks / 2 : chunks;
  }

 private:
  /// Chunks that touch across two rounds, or within one, are one range.
  [[nodiscard]] constexpr bool joins_rounds() const { return rank_ == 0; }
  [[nodiscard]] constexpr bool joins_within() const { return rank_ + 1 == ranks_; }

  [[nodiscard]] constexpr Slice of(Tokens first, Tokens end) const {
    return {0, first * block_, end * block_};
  }

  /// How many of the rank's chunks have their token number `at` (`block_`: their end) below a token.
  [[nodiscard]] constexpr Tokens chunks_below(Tokens token, Tokens at) const {
    const Tokens round = 2 * ranks_ * block_;
    const Tokens shifted = token - at, full = shifted > 0 ? shifted / round : 0,
                 rest = shifted - full * round;
    return 2 * full + (rest > rank_ * block_ ? 1 : 0) + (rest > (2 * ranks_ - 1 - rank_) * block_ ? 1 : 0);
  }

  Tokens ranks_, rank_, block_;
};

/// What each of several ranks takes for the attention of slices that they share by position. Sums over the ranges from a
/// sample's beginning are tabulated as far as slices reach, so a slice takes a few lookups per rank, however long it is.
template <AttentionModel A>
class PositionSeconds {
 public:
  /// @pre ranks > 1, block > 0.
  PositionSeconds(A model, std::size_t ranks, Tokens block) : model_(std::move(model)), seconds_(ranks) {
    for (std::size_t r = 0; r < ranks; ++r) ranges_.emplace_back(ranks, r, block);
    for (auto& sums : sums_) sums.assign(ranks, {0.0});
  }

  /// Seconds of the slowest rank, without launches. O(slices * ranks), plus what is tabulated.
  [[nodiscard]] double slowest(std::span<const Slice> pack, Pass pass) {
    std::fill(seconds_.begin(), seconds_.end(), 0.0);
    for (const Slice& slice : pack) {
      for (std::size_t r = 0; r < seconds_.size(); ++r) seconds_[r] += of_rank(slice, r, pass);
    }
    return *std::max_element(seconds_.begin(), seconds_.end());
  }

 private:
  [[nodiscard]] double of_rank(const Slice& slice, std::size_t rank, Pass pass) {
    const PositionRanges& ranges = ranges_[rank];
    Tokens first = ranges.ended_at(slice.begin), end = ranges.beginning_before(slice.end);
    double seconds = 0.0;
    // Ranges at either end that lie only partly in the slice.
    const auto add_part = [&](const Slice& range) {
      const Tokens from = std::max(range.begin, slice.begin), to = std::min(range.end, slice.end);
      seconds += chunk_seconds(model_, from, to, pass);
    };
    if (first < end && ranges[first].begin < slice.begin) add_part(ranges[first++]);
    if (first < end && ranges[end - 1].end > slice.end) add_part(ranges[--end]);
    return first < end ? seconds + sum(rank, end, pass) - sum(rank, first, pass) : seconds;
  }

  /// Seconds of the first `count` ranges of a sample.
  [[nodiscard]] double sum(std::size_t rank, Tokens count, Pass pass) {
    std::vector<double>& sums = sums_[pass == Pass::forward ? 0 : 1][rank];
    while (sums.size() <= static_cast<std::size_t>(count)) {
      const Slice range = ranges_[rank][static_cast<Tokens>(sums.size()) - 1];
      sums.push_back(sums.back() + chunk_seconds(model_, range.begin, range.end, pass));
    }
    return sums[static_cast<std::size_t>(count)];
  }

  A model_;
  std::vector<PositionRanges> ranges_;                    // [rank]
  std::array<std::vector<std::vector<double>>, 2> sums_;  // [pass][rank][ranges]
  std::vector<double> seconds_;                           // [rank]
};

}  // namespace slimpack
