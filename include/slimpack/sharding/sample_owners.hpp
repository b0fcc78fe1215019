#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <tuple>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/core/ragged.hpp"
#include "slimpack/sharding/by_position.hpp"

namespace slimpack {

/// Tokens `[begin, end)` of a sample, and which of its members holds them.
struct OwnedRange {
  Tokens begin = 0;
  Tokens end = 0;
  std::size_t member = 0;

  friend bool operator==(const OwnedRange&, const OwnedRange&) = default;
};

/// Which of a sample's members holds which of its tokens, for all samples of a batch: by position, as `owner_of` says, or by a list
/// of ranges, as other shardings of packs make them. Until it is dealt, a sample has one member, which holds all of it.
/// Questions allocate nothing.
class SampleOwners {
 public:
  SampleOwners() = default;
  /// @param samples their number. @param block tokens of a chunk of samples that are dealt by position, at least 1.
  SampleOwners(std::size_t samples, Tokens block) : samples_(samples), block_(block) {}

  /// O(1). @param members at least 1.
  void deal_by_position(SampleId sample, std::size_t members) {
    samples_[sample] = {static_cast<std::uint32_t>(members), by_position};
  }

  /// @param members at least 1. @param ranges in any order, not empty, none of which overlap; members below `members`. They
  /// get sorted. Ranges of a member that touch become one. O(members + ranges log ranges).
  void deal(SampleId sample, std::size_t members, std::span<OwnedRange> ranges) {
    samples_[sample] = {static_cast<std::uint32_t>(members), static_cast<std::uint32_t>(runs_.size())};
    std::sort(ranges.begin(), ranges.end(), [](const OwnedRange& a, const OwnedRange& b) {
      return std::tuple(a.member, a.begin) < std::tuple(b.member, b.begin);
    });
    auto next = ranges.begin();
    for (std::size_t member = 0; member < members; ++member) {
      Tokens before = 0;
      while (next != ranges.end() && next->member == member) {
        Run run{next->begin, next->end, before};
        for (++next; next != ranges.end() && next->member == member && next->begin == run.end; ++next)
          run.end = next->end;
        runs_.add(run);
        before += run.end - run.begin;
      }
      runs_.close();
    }
  }

  [[nodiscard]] std::size_t members(SampleId sample) const { return samples_[sample].members; }
  /// Tokens of a chunk of samples that are dealt by position.
  [[nodiscard]] Tokens block() const { return block_; }

  /// Tokens of a slice that a member holds. O(1) by position, otherwise O(log ranges).
  [[nodiscard]] Tokens owned_tokens(const Slice& slice, std::size_t member) const {
    const Sample& sample = samples_[slice.sample];
    if (sample.row == by_position) return slimpack::owned_tokens(slice, sample.members, member, block_);
    const std::span<const Run> runs = runs_[sample.row + member];
    return owned_below(runs, slice.end) - owned_below(runs, slice.begin);
  }

  /// Calls `f(Slice)` for each range of a slice that a member holds, in token order; ranges that touch come as one.
  /// O(ranges of the slice) by position, otherwise O(these + log ranges).
  template <class F>
  void for_each_owned_range(const Slice& slice, std::size_t member, F&& f) const {
    const Sample& sample = samples_[slice.sample];
    if (sample.row == by_position)
      return slimpack::for_each_owned_range(slice, sample.members, member, block_, f);
    if (slice.begin >= slice.end) return;
    const std::span<const Run> runs = runs_[sample.row + member];
    for (auto run = first_after(runs, slice.begin); run != runs.end() && run->begin < slice.end; ++run)
      f(Slice{slice.sample, std::max(run->begin, slice.begin), std::min(run->end, slice.end)});
  }

  /// The part of a slice that has rows `[first, first + rows)` of what a member holds of its sample, and no further ones. Empty if
  /// the slice has none of them. O(1) by position, otherwise O(log ranges). @pre first and rows are not negative.
  [[nodiscard]] Slice part_of_rows(const Slice& slice, std::size_t member, Tokens first, Tokens rows) const {
    const Tokens end = std::clamp(token_of(slice.sample, member, first + rows), slice.begin, slice.end);
    return {slice.sample, std::clamp(token_of(slice.sample, member, first), slice.begin, end), end};
  }

 private:
  /// A range that one member holds, and how many tokens of the sample it holds before it.
  struct Run {
    Tokens begin, end, before;
  };

  static constexpr std::uint32_t by_position = UINT32_MAX;

  struct Sample {
    std::uint32_t members = 1;
    std::uint32_t row = by_position;  ///< of its first member's runs
  };

  /// The first run that ends after a token.
  [[nodiscard]] static std::span<const Run>::iterator first_after(std::span<const Run> runs, Tokens token) {
    return std::upper_bound(runs.begin(), runs.end(), token,
                            [](Tokens t, const Run& run) { return t < run.end; });
  }

  [[nodiscard]] static Tokens owned_below(std::span<const Run> runs, Tokens end) {
    const auto run = first_after(runs, end);
    if (run == runs.end()) return runs.empty() ? 0 : runs.back().before + runs.back().end - runs.back().begin;
    return run->before + std::max(end - run->begin, Tokens{0});
  }

  /// The token of a row of a member; beyond all tokens if it holds fewer.
  [[nodiscard]] Tokens token_of(SampleId id, std::size_t member, Tokens row) const {
    const Sample& sample = samples_[id];
    if (sample.row == by_position) return owned_token(row, sample.members, member, block_);
    const std::span<const Run> runs = runs_[sample.row + member];
    const auto next = std::upper_bound(runs.begin(), runs.end(), row,
                                       [](Tokens r, const Run& run) { return r < run.before; });
    if (next == runs.begin()) return std::numeric_limits<Tokens>::max();
    const Run& run = *std::prev(next);
    const Tokens token = run.begin + row - run.before;
    return token < run.end ? token : std::numeric_limits<Tokens>::max();
  }

  std::vector<Sample> samples_;
  Ragged<Run> runs_;  ///< of each member of the samples that are dealt by a list
  Tokens block_ = default_ownership_block;
};

}  // namespace slimpack
