#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/sharding/context_shards.hpp"

namespace slimpack {

/// Tokens of a chunk of a merged sample, unless said otherwise.
inline constexpr Tokens default_ownership_block = 64;

/// The same where ranks share attention by heads alone, so that no kernel needs longer chunks.
inline constexpr Tokens block_by_heads = 16;

/// Which of `members` pipelines holds token `token` of a sample that they run together (DP-Merge). Chunks of
/// `block` tokens go round in mirrored pairs: of each 2g chunks, member r has the r-th and the r-th from the
/// end, which makes causal attention equal among members (SlimPack's DP-Merge with the usual context-parallel
/// sharding). The owner depends on the token's position alone, so a token's activations, keys and values stay
/// on one member however either pass is sliced.
/// @param members at least 1. @param block at least 1.
[[nodiscard]] constexpr std::size_t owner_of(Tokens token, std::size_t members, Tokens block) {
  const auto g = static_cast<Tokens>(members);
  const Tokens place = token / block % (2 * g);
  return static_cast<std::size_t>(place < g ? place : 2 * g - 1 - place);
}

namespace detail {

/// Tokens below `end` that the member of `[first, last)` holds that holds most of them. Of these members the first is the first
/// to have a chunk in a round, and the last the first to have two.
[[nodiscard]] constexpr Tokens most_owned_below(Tokens end, std::size_t members, std::size_t first,
                                                std::size_t last, Tokens block) {
  const auto g = static_cast<Tokens>(members);
  const Tokens round = 2 * g * block, rest = end % round;
  const auto part = [&](Tokens chunk) { return std::clamp(rest - chunk * block, Tokens{0}, block); };
  return end / round * 2 * block + part(static_cast<Tokens>(first)) + part(2 * g - static_cast<Tokens>(last));
}

/// Tokens below `end` that a member holds.
[[nodiscard]] constexpr Tokens owned_below(Tokens end, std::size_t members, std::size_t member,
                                           Tokens block) {
  return most_owned_below(end, members, member, member + 1, block);
}

}  // namespace detail

/// Tokens of a slice that a member holds. Members differ by at most one pair of blocks. O(1).
/// @param member below `members`. @param block at least 1.
[[nodiscard]] constexpr Tokens owned_tokens(const Slice& slice, std::size_t members, std::size_t member,
                                            Tokens block) {
  return detail::owned_below(slice.end, members, member, block) -
         detail::owned_below(slice.begin, members, member, block);
}

/// Calls `f(Slice)` for each range of a slice that a member holds, in token order; ranges that touch come as
/// one. With one member that is the slice itself. Allocates nothing. O(ranges).
/// @param member below `members`. @param block at least 1.
template <class F>
void for_each_owned_range(const Slice& slice, std::size_t members, std::size_t member, Tokens block, F&& f) {
  if (slice.begin >= slice.end) return;
  if (members == 1) {
    f(slice);
    return;
  }
  const auto g = static_cast<Tokens>(members), r = static_cast<Tokens>(member);
  Slice open{slice.sample, slice.begin, slice.begin};
  const auto add = [&](Tokens chunk) {
    const Tokens begin = std::max(chunk * block, slice.begin), end = std::min((chunk + 1) * block, slice.end);
    if (begin >= end) return;
    if (open.end != begin) {
      if (open.size() > 0) f(std::as_const(open));
      open.begin = begin;
    }
    open.end = end;
  };
  const Tokens round = 2 * g * block;
  for (Tokens n = slice.begin / round; n * round < slice.end; ++n) {
    add(2 * g * n + r);
    add(2 * g * n + 2 * g - 1 - r);
  }
  if (open.size() > 0) f(std::as_const(open));
}

/// Appends the ranges of a slice that a member holds, in token order; ranges that touch come as one.
/// @param members that run the sample together. @param member below `members`. @param block tokens of a chunk.
/// @throws InvalidInput naming the argument that is out of range. Complexity: O(ranges).
inline void owned_ranges(const Slice& slice, std::size_t members, std::size_t member, Tokens block,
                         std::vector<Slice>& out) {
  require(block > 0, "block is ", block, "; expected a positive number of tokens");
  require(member < members, "member is ", member, "; expected below the ", members, " members");
  for_each_owned_range(slice, members, member, block, [&](const Slice& range) { out.push_back(range); });
}

/// The chunks of each rank of a pack whose tokens are dealt by their positions in their samples.
/// @param ranks at least 1. @param block at least 1. @throws InvalidInput naming the argument that is out of range.
/// Complexity: O(chunks + slices * ranks).
[[nodiscard]] inline ContextShards position_shards(std::span<const Slice> pack, std::int32_t ranks,
                                                   Tokens block) {
  require(ranks > 0, "there are ", ranks, " ranks; expected a positive number");
  require(block > 0, "block is ", block, "; expected a positive number of tokens");
  ContextShards shards;
  for (const Slice& slice : pack) {
    shards.offsets.push_back(shards.tokens - slice.begin);
    shards.tokens += slice.size();
  }
  const auto members = static_cast<std::size_t>(ranks);
  for (std::size_t rank = 0; rank < members; ++rank) {
    for (std::size_t i = 0; i < pack.size(); ++i) {
      for_each_owned_range(pack[i], members, rank, block, [&](const Slice& range) {
        shards.ranks.add({static_cast<SampleId>(i), range.begin, range.end});
      });
    }
    shards.ranks.close();
  }
  return shards;
}

}  // namespace slimpack
