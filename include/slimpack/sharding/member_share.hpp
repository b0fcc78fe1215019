#pragma once

#include <cstddef>
#include <span>

#include "slimpack/core/ids.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/sharding/by_position.hpp"

namespace slimpack {

/// How many tokens a pipeline holds of samples that it runs with other pipelines, or on several context-parallel ranks. The
/// pipeline counts what its fullest rank holds, times its ranks, because memory models divide a pipeline's tokens equally
/// among these.
///
/// Members that share samples by position hold chunks of tokens (`DealtRounds`). For the first x tokens of a sample, the rank
/// that holds most counts. So the tokens of a sample's slices add up to the same total, however it is cut.
struct MemberShare {
  std::size_t members = 1;  ///< pipelines that run the sample together
  std::size_t ranks = 1;    ///< context-parallel ranks of each of them
  std::size_t member = 0;   ///< which of them this is; `members`: the fullest of all
  Tokens block = 0;         ///< of samples shared by position; 0: they are shared equally

  /// Whether all members hold the same.
  [[nodiscard]] constexpr bool equal() const { return block == 0 || members * ranks == 1; }

  /// Tokens of a slice. O(1).
  [[nodiscard]] constexpr double operator()(const Slice& slice) const {
    if (equal()) return static_cast<double>(slice.size()) / static_cast<double>(members);
    return static_cast<double>(static_cast<Tokens>(ranks) *
                               (most_below(slice.end) - most_below(slice.begin)));
  }
  /// Tokens of a pack. O(slices).
  [[nodiscard]] constexpr double operator()(std::span<const Slice> pack) const {
    if (equal()) return static_cast<double>(count_tokens(pack)) / static_cast<double>(members);
    double tokens = 0.0;
    for (const Slice& slice : pack) tokens += (*this)(slice);
    return tokens;
  }

 private:
  [[nodiscard]] constexpr Tokens most_below(Tokens end) const {
    const bool any = member == members;
    return detail::most_owned_below(end, members * ranks, any ? 0 : member * ranks,
                                    any ? members * ranks : (member + 1) * ranks, block);
  }
};

}  // namespace slimpack
