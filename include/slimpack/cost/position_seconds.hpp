#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/packs.hpp"
#include "slimpack/sharding/attention_model.hpp"
#include "slimpack/sharding/by_position.hpp"

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
      : rounds_(ranks, block), rank_(static_cast<Tokens>(rank)) {}

  [[nodiscard]] constexpr Slice operator[](Tokens i) const {
    if (joins_rounds()) {
      const DealtRounds::Round round = rounds_[i];
      return {0, i == 0 ? 0 : round.begin - rounds_[i - 1].chunk, round.begin + round.chunk};
    }
    if (joins_within()) return of(rounds_[i], rank_, rank_ + 2);
    const Tokens chunk = i % 2 == 0 ? rank_ : mirrored();
    return of(rounds_[i / 2], chunk, chunk + 1);
  }

  /// How many of the ranges begin before a token. @param round the one that has it.
  [[nodiscard]] constexpr Tokens beginning_before(Tokens token, const DealtRounds::Round& round) const {
    const auto begins = [&](Tokens chunk) { return round.begin + chunk * round.chunk < token ? 1 : 0; };
    const Tokens chunks = 2 * round.number + begins(rank_) + begins(mirrored());
    if (joins_rounds()) return chunks == 0 ? 0 : chunks / 2 + 1;
    return joins_within() ? (chunks + 1) / 2 : chunks;
  }
  /// How many of them end at a token or before. @param round the one that has it.
  [[nodiscard]] constexpr Tokens ended_at(Tokens token, const DealtRounds::Round& round) const {
    const auto ends = [&](Tokens chunk) { return round.begin + (chunk + 1) * round.chunk <= token ? 1 : 0; };
    const Tokens chunks = 2 * round.number + ends(rank_) + ends(mirrored());
    if (joins_rounds()) return (chunks + 1) / 2;
    return joins_within() ? chunks / 2 : chunks;
  }

 private:
  /// Chunks that touch across two rounds, or within one, are one range.
  [[nodiscard]] constexpr bool joins_rounds() const { return rank_ == 0; }
  [[nodiscard]] constexpr bool joins_within() const { return 2 * (rank_ + 1) == rounds_.chunks(); }
  [[nodiscard]] constexpr Tokens mirrored() const { return rounds_.chunks() - 1 - rank_; }

  [[nodiscard]] static constexpr Slice of(const DealtRounds::Round& round, Tokens first, Tokens end) {
    return {0, round.begin + first * round.chunk, round.begin + end * round.chunk};
  }

  DealtRounds rounds_;
  Tokens rank_;
};

/// What each of several ranks takes for the attention of slices that they share by position. Sums over the ranges from a
/// sample's beginning are tabulated as far as slices reach, so a slice takes a few lookups per rank, however long it is.
template <AttentionModel A>
class PositionSeconds {
 public:
  /// @pre ranks > 1, block > 0.
  PositionSeconds(A model, std::size_t ranks, Tokens block)
      : model_(std::move(model)), rounds_(ranks, block), seconds_(ranks) {
    for (std::size_t r = 0; r < ranks; ++r) ranges_.emplace_back(ranks, r, block);
    for (auto& sums : sums_) sums.assign(ranks, {0.0});
  }

  /// Seconds of the slowest rank, without launches. O(slices * ranks), plus what is tabulated.
  [[nodiscard]] double slowest(std::span<const Slice> pack, Pass pass) {
    std::fill(seconds_.begin(), seconds_.end(), 0.0);
    for (const Slice& slice : pack) {
      const DealtRounds::Round first = rounds_.containing(slice.begin), last = rounds_.containing(slice.end);
      for (std::size_t r = 0; r < seconds_.size(); ++r) {
        const PositionRanges& ranges = ranges_[r];
        seconds_[r] += of_rank(slice, r, ranges.ended_at(slice.begin, first),
                               ranges.beginning_before(slice.end, last), pass);
      }
    }
    return *std::max_element(seconds_.begin(), seconds_.end());
  }

 private:
  /// @param first range of the rank that does not end before the slice. @param end after the last that begins before its end.
  [[nodiscard]] double of_rank(const Slice& slice, std::size_t rank, Tokens first, Tokens end, Pass pass) {
    const PositionRanges& ranges = ranges_[rank];
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
  DealtRounds rounds_;
  std::vector<PositionRanges> ranges_;                    // [rank]
  std::array<std::vector<std::vector<double>>, 2> sums_;  // [pass][rank][ranges]
  std::vector<double> seconds_;                           // [rank]
};

}  // namespace slimpack
