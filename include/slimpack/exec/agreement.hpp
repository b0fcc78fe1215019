#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/exec/hash.hpp"

namespace slimpack {

namespace detail {

/// 16 hexadecimal digits.
inline std::string hash_digits(std::uint64_t hash) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, hash, 16).ptr;
  return std::string(16 - static_cast<std::size_t>(end - digits), '0') + std::string(digits, end);
}

/// Where all ranks show the same, there is nothing to compare.
template <class T>
[[nodiscard]] bool all_same(std::span<const T> shown) {
  return std::adjacent_find(shown.begin(), shown.end(), std::not_equal_to<>()) == shown.end();
}

/// The value that most ranks have, of equally many the one of the lowest rank; `none` only if all have it.
inline const std::string& common_value(std::span<const std::string> values, std::string_view none) {
  std::map<std::string_view, std::size_t> count;
  for (const std::string& value : values) count[value] += value == none ? 0 : 1;
  return *std::max_element(values.begin(), values.end(), [&](const std::string& a, const std::string& b) {
    return count.at(a) < count.at(b);
  });
}

/// Which ranks have another value than most, and what they have; empty where all have the same.
/// @param values by rank. @param none the value of ranks that have nothing.
inline std::string disagreement(std::string_view name, std::span<const std::string> values,
                                std::string_view none) {
  if (all_same(values)) return {};
  const std::string& common = common_value(values, none);
  constexpr std::size_t most_named = 8;
  std::size_t others = 0;
  std::string named;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    if (values[rank] == common || ++others > most_named) continue;
    named += concat(named.empty() ? "" : ", ", "rank ", rank, " has ", values[rank]);
  }
  if (others > most_named) named += concat(" and ", others - most_named, " more differ");
  return concat("ranks do not agree on the ", name, ": ", named, "; expected ", common, " as on the other ",
                values.size() - others, " of ", values.size(), " ranks");
}

}  // namespace detail

/// Checks the hashes that all ranks have gathered. All ranks see the same hashes, so all throw or none.
/// @param hashes by rank. @param ranks that the plan is for.
/// @throws InvalidInput naming the ranks that differ from most, or the wrong number of ranks.
/// Complexity: O(n log n) in the ranks.
inline void require_agreement(std::span<const std::uint64_t> hashes, std::size_t ranks) {
  require(!hashes.empty(), "no rank has shown a plan; expected ", ranks, " ranks");
  if (!detail::all_same(hashes)) {
    constexpr const char* none = "no plan";
    std::vector<std::string> plans;
    for (const std::uint64_t hash : hashes)
      plans.push_back(hash == no_plan_hash ? none : "plan " + detail::hash_digits(hash));
    throw InvalidInput(detail::disagreement("plan", plans, none));
  }
  require(hashes.front() != no_plan_hash, "no rank has a plan; expected the same one on all ", hashes.size(),
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
