#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/exec/hash.hpp"

namespace slimpack {

namespace detail {

inline std::string hash_text(std::uint64_t hash) {
  if (hash == no_plan_hash) return "no plan";
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, hash, 16).ptr;
  return "plan " + std::string(16 - static_cast<std::size_t>(end - digits), '0') + std::string(digits, end);
}

/// The hash that most ranks have, of equally many the one of the lowest rank; one that isn't `no_plan_hash` if
/// there is any.
inline std::uint64_t common_hash(std::span<const std::uint64_t> hashes) {
  std::vector<std::uint64_t> sorted(hashes.begin(), hashes.end());
  std::sort(sorted.begin(), sorted.end());
  const auto count = [&](std::uint64_t hash) {
    const auto [begin, end] = std::equal_range(sorted.begin(), sorted.end(), hash);
    return hash == no_plan_hash ? std::ptrdiff_t{0} : end - begin;
  };
  std::uint64_t best = hashes.front();
  for (const std::uint64_t hash : hashes) {
    if (count(hash) > count(best)) best = hash;
  }
  return best;
}

}  // namespace detail

/// Checks the hashes that all ranks have gathered. All ranks see the same hashes, so all throw or none.
/// @param hashes by rank. @param ranks that the plan is for.
/// @throws InvalidInput naming the ranks that differ from most, or the wrong number of ranks.
/// Complexity: O(n log n) in the ranks.
inline void require_agreement(std::span<const std::uint64_t> hashes, std::size_t ranks) {
  require(!hashes.empty(), "no rank has shown a plan; expected ", ranks, " ranks");
  const std::uint64_t common = detail::common_hash(hashes);
  constexpr std::size_t most_named = 8;
  std::size_t others = 0;
  std::string named;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] == common || ++others > most_named) continue;
    named += concat(named.empty() ? "" : ", ", "rank ", rank, " has ", detail::hash_text(hashes[rank]));
  }
  if (others > most_named) named += concat(" and ", others - most_named, " more differ");
  require(others == 0, "ranks do not agree on the plan: ", named, "; expected ", detail::hash_text(common),
          " as on the other ", hashes.size() - others, " of ", hashes.size(), " ranks");
  require(common != no_plan_hash, "no rank has a plan; expected the same one on all ", hashes.size(),
          " ranks");
  require(hashes.size() == ranks, "there are ", hashes.size(), " ranks; expected the ", ranks,
          " that the plan is for");
}

/// Makes sure, before a step, that all ranks are about to run the same plan: exchanges their hashes. Every
/// rank has to call it, one whose plan could not be read with `no_plan_hash`: then all others learn of it
/// instead of waiting.
/// @param own hash of this rank's plan, `plan_hash(plan)`. @param ranks that the plan is for,
/// `rank_count(plan)`; not looked at if the hashes differ.
/// @param all_gather called once with `own`; hands back all ranks' values in the order of ranks.
/// @throws InvalidInput on every rank as `require_agreement`, and whatever `all_gather` throws.
template <std::invocable<std::uint64_t> AllGather>
void agree_on_plan(std::uint64_t own, std::size_t ranks, AllGather&& all_gather) {
  const auto hashes = std::forward<AllGather>(all_gather)(own);
  require_agreement(hashes, ranks);
}

}  // namespace slimpack
