#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/packs.hpp"

namespace slimpack {

/// The packs that hold tokens, each with at least one for every rank: smaller packs join the one of the others that has the
/// fewest tokens. @param ranks context-parallel ranks that share a pack.
/// @throws InvalidInput if all packs together have fewer tokens than ranks. O(slices).
[[nodiscard]] inline Packs shardable_packs(const Packs& packs, std::int32_t ranks) {
  std::vector<std::size_t> kept;
  std::vector<Slice> small;
  for (std::size_t k = 0; k < packs.size(); ++k) {
    if (count_tokens(packs[k]) >= ranks) {
      kept.push_back(k);
    } else {
      small.insert(small.end(), packs[k].begin(), packs[k].end());
    }
  }
  const auto least = std::min_element(kept.begin(), kept.end(), [&](std::size_t a, std::size_t b) {
    return count_tokens(packs[a]) < count_tokens(packs[b]);
  });
  const Tokens most = count_tokens(small) + (kept.empty() ? 0 : count_tokens(packs[*least]));
  require(small.empty() || most >= ranks, "cp is ", ranks, "; expected at most the ", most,
          " tokens of the iteration");
  Packs out;
  const auto add_small = [&] {
    for (const Slice& slice : small) out.add(slice);
  };
  for (auto k = kept.begin(); k != kept.end(); ++k) {
    for (const Slice& slice : packs[*k]) out.add(slice);
    if (k == least) add_small();
    out.close();
  }
  if (kept.empty() && !small.empty()) {
    add_small();
    out.close();
  }
  return out;
}

}  // namespace slimpack
