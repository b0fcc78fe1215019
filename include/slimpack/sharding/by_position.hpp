#pragma once

#include <algorithm>
#include <bit>
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

/// The rounds in which a sample's tokens are dealt to g members: each has 2g chunks, of which member r has the r-th and the
/// r-th from the end. A chunk has `block` tokens, but the first 2g * block tokens of a sample are dealt in several rounds, whose
/// chunks grow from one token to half a block, rounded up. So short samples are shared more equally, and long ones in few chunks:
/// of a sample with at least 2g tokens, the fullest member has at most half more than an equal share, and two tokens.
class DealtRounds {
 public:
  struct Round {
    Tokens number = 0;
    Tokens begin = 0;  ///< its first token
    Tokens chunk = 0;  ///< tokens of each of its chunks
  };

  /// @pre members > 0, block > 0.
  constexpr DealtRounds(std::size_t members, Tokens block)
      : chunks_(2 * static_cast<Tokens>(members)), block_(block), growing_(width(block)) {}

  [[nodiscard]] constexpr Round operator[](Tokens number) const {
    const Tokens before = chunks_before(number);
    return {number, chunks_ * before, chunks_before(number + 1) - before};
  }
  /// The round that has a token.
  [[nodiscard]] constexpr Round containing(Tokens token) const {
    const Tokens place = token / chunks_;
    if (place >= block_) return (*this)[growing_ - 1 + place / block_];
    const Tokens number = width(place);
    return (*this)[chunks_before(number) > place ? number - 1 : number];
  }
  /// Chunks of a round.
  [[nodiscard]] constexpr Tokens chunks() const { return chunks_; }

 private:
  [[nodiscard]] static constexpr Tokens width(Tokens n) {
    return static_cast<Tokens>(std::bit_width(static_cast<std::uint64_t>(n)));
  }

  /// The sum of one chunk from each earlier round. While chunks grow, each round doubles it, up to a block.
  [[nodiscard]] constexpr Tokens chunks_before(Tokens round) const {
    return round < growing_ ? block_ >> (growing_ - round) : block_ * (round - growing_ + 1);
  }

  Tokens chunks_, block_, growing_;  // growing_: rounds of the first 2g * block tokens
};

/// Which of `members` pipelines holds token `token` of a sample that they run together (DP-Merge). Chunks go round in mirrored
/// pairs (`DealtRounds`), which makes causal attention equal among members (SlimPack's DP-Merge with the usual context-parallel
/// sharding). The owner depends on the token's position alone, so a token's activations, keys and values stay
/// on one member however either pass is sliced.
/// @param members at least 1. @param block at least 1.
[[nodiscard]] constexpr std::size_t owner_of(Tokens token, std::size_t members, Tokens block) {
  const DealtRounds rounds(members, block);
  const DealtRounds::Round round = rounds.containing(token);
  const Tokens place = (token - round.begin) / round.chunk;
  return static_cast<std::size_t>(std::min(place, rounds.chunks() - 1 - place));
}

namespace detail {

/// The most tokens below `end` that any member of `[first, last)` holds. In each round, member `first` gets its first
/// chunk before the others, and member `last - 1` its second.
[[nodiscard]] constexpr Tokens most_owned_below(Tokens end, std::size_t members, std::size_t first,
                                                std::size_t last, Tokens block) {
  const DealtRounds rounds(members, block);
  const DealtRounds::Round round = rounds.containing(end);
  const Tokens rest = end - round.begin;
  const auto part = [&](Tokens place) {
    return std::clamp(rest - place * round.chunk, Tokens{0}, round.chunk);
  };
  return round.begin / static_cast<Tokens>(members) + part(static_cast<Tokens>(first)) +
         part(rounds.chunks() - static_cast<Tokens>(last));
}

/// Tokens below `end` that a member holds.
[[nodiscard]] constexpr Tokens owned_below(Tokens end, std::size_t members, std::size_t member,
                                           Tokens block) {
  return most_owned_below(end, members, member, member + 1, block);
}

}  // namespace detail

/// Tokens of a slice that a member holds. Members differ by at most two chunks. O(1).
/// @param member below `members`. @param block at least 1.
[[nodiscard]] constexpr Tokens owned_tokens(const Slice& slice, std::size_t members, std::size_t member,
                                            Tokens block) {
  return detail::owned_below(slice.end, members, member, block) -
         detail::owned_below(slice.begin, members, member, block);
}

/// The token that is number `row`, from 0 on, of those that a member holds of an endless sample. O(1).
/// @param member below `members`. @param block at least 1.
[[nodiscard]] constexpr Tokens owned_token(Tokens row, std::size_t members, std::size_t member,
                                           Tokens block) {
  const DealtRounds rounds(members, block);
  const auto g = static_cast<Tokens>(members), m = static_cast<Tokens>(member);
  const DealtRounds::Round round = rounds.containing(row * g);  // a round gives all members the same
  const Tokens rest = row - round.begin / g;
  if (rest < round.chunk) return round.begin + m * round.chunk + rest;
  return round.begin + (rounds.chunks() - 1 - m) * round.chunk + rest - round.chunk;
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
  const auto r = static_cast<Tokens>(member);
  const DealtRounds rounds(members, block);
  Slice open{slice.sample, slice.begin, slice.begin};
  const auto add = [&](const DealtRounds::Round& round, Tokens place) {
    const Tokens chunk = round.begin + place * round.chunk;
    const Tokens begin = std::max(chunk, slice.begin), end = std::min(chunk + round.chunk, slice.end);
    if (begin >= end) return;
    if (open.end != begin) {
      if (open.size() > 0) f(std::as_const(open));
      open.begin = begin;
    }
    open.end = end;
  };
  for (auto round = rounds.containing(slice.begin); round.begin < slice.end;
       round = rounds[round.number + 1]) {
    add(round, r);
    add(round, rounds.chunks() - 1 - r);
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
