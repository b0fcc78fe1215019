#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "slimpack/cost/polynomial.hpp"
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

/// Tokens that the fullest rank of a pack that is shared by position holds beyond an equal share, times the ranks.
inline Tokens excess_tokens(std::span<const Slice> pack, std::size_t ranks, Tokens block) {
  const ContextShards shards = position_shards(pack, static_cast<std::int32_t>(ranks), block);
  Tokens most = 0;
  for (std::size_t r = 0; r < ranks; ++r) most = std::max(most, count_tokens(shards.ranks[r]));
  return static_cast<Tokens>(ranks) * most - count_tokens(pack);
}

/// The same of a plan's pack; zero if it is shared in another way.
inline Tokens excess_tokens(const Plan& plan, Pass pass, std::size_t pack) {
  const PassPlan& of = plan.of(pass);
  if (of.sharding.size() <= pack || of.sharding[pack] != Sharding::by_position) return 0;
  const auto members = of.pipelines[pack];
  const auto ranks = members.size() * static_cast<std::size_t>(plan.pipelines[members.front()].cp);
  return excess_tokens(of.packs[pack], ranks, of.block);
}

/// What a token takes by a cost model, without attention.
template <class C>
double token_seconds(const C& cost, std::size_t stage, Pass pass) {
  if constexpr (PolynomialCostModel<C>) return std::max(0.0, cost.coefficients(stage, pass).per_token);
  const auto first = [&](Tokens n) { return cost.slice_seconds(stage, 0, n, pass); };
  return std::max(0.0, (first(256) - first(128)) / 128.0);
}
/// The same of recomputing a layer.
template <class C>
double recompute_token_seconds(const C& cost, std::size_t stage) {
  if constexpr (PolynomialCostModel<C>) return std::max(0.0, cost.recompute_coefficients(stage).per_token);
  const auto first = [&](Tokens n) { return cost.recompute_seconds(stage, 0, n); };
  return std::max(0.0, (first(256) - first(128)) / 128.0);
}

}  // namespace slimpack::testing
