#pragma once

#include <algorithm>
#include <cstddef>

#include "slimpack/plan/plan.hpp"
#include "slimpack/sharding/by_position.hpp"

namespace slimpack::testing {

/// Tokens that one of some pipelines with `ranks` context-parallel ranks holds of a slice that they share by position: those of
/// the rank that has most of the sample up to there, times the ranks. Asks each rank.
inline double held_by_position(const Slice& slice, std::size_t members, std::size_t member, std::size_t ranks,
                               Tokens block) {
  const auto most = [&](Tokens end) {
    Tokens tokens = 0;
    for (std::size_t r = member * ranks; r < (member + 1) * ranks; ++r)
      tokens = std::max(tokens, owned_tokens({slice.sample, 0, end}, members * ranks, r, block));
    return static_cast<double>(tokens) * static_cast<double>(ranks);
  };
  return most(slice.end) - most(slice.begin);
}

/// Tokens that a pipeline holds of a slice of a pack.
inline double held_tokens(const Plan& plan, Pass pass, std::size_t pack, std::size_t p, const Slice& slice) {
  const PassPlan& of = plan.of(pass);
  const auto members = of.pipelines[pack];
  if (of.block == 0 || of.sharding.size() <= pack || of.sharding[pack] != Sharding::by_position)
    return static_cast<double>(slice.size()) / static_cast<double>(members.size());
  const auto place = std::find(members.begin(), members.end(), static_cast<PipelineId>(p)) - members.begin();
  return held_by_position(slice, members.size(), static_cast<std::size_t>(place),
                          static_cast<std::size_t>(plan.pipelines[p].cp), of.block);
}

}  // namespace slimpack::testing
