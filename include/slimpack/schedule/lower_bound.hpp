#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/cost/inverse.hpp"
#include "slimpack/cost/packs.hpp"

namespace slimpack {

/// What any plan of a batch on given pipelines takes at least, and why. Seconds, without synchronisation.
struct StepLowerBound {
  double work = 0.0;  ///< the busiest stage's share of all samples, with the time to fill and drain around it
  double sample = 0.0;  ///< the longest sample's own chain, run by as many pipelines as pay off

  [[nodiscard]] double seconds() const { return std::max(work, sample); }
};

namespace detail {

/// Seconds of all other stages around the tasks of each stage: a first pack has to pass the stages before it,
/// a last backward pack has to go back through them. At least the constants, the latency of transfers, and
/// one token.
template <CostModel C>
[[nodiscard]] std::vector<double> fill_and_drain(const C& cost, double share) {
  const double transfer = cost.transfer_seconds(0, Pass::forward) + cost.transfer_seconds(0, Pass::backward);
  std::vector<double> around;
  double sum = 0.0;
  for (std::size_t s = 0; s < cost.stages(); ++s) {
    const double constants = cost.pack_seconds(s, Pass::forward) + cost.pack_seconds(s, Pass::backward);
    around.push_back(sum + constants);
    sum += constants + transfer;
    sum += (cost.slice_seconds(s, 0, 1, Pass::forward) + cost.slice_seconds(s, 0, 1, Pass::backward)) / share;
  }
  return around;
}

/// Most seconds of any stage with one sample, run whole, and what stands around it. Between the forward slices
/// and the backward slices on a stage, the sample's last `piece` tokens go to the last stage and come back.
template <CostModel C>
[[nodiscard]] double chain_seconds(Tokens length, Tokens piece, const C& cost,
                                   std::span<const double> around) {
  const double transfer =
      cost.transfer_seconds(piece, Pass::forward) + cost.transfer_seconds(piece, Pass::backward);
  double most = 0.0, behind = 0.0;
  for (std::size_t s = cost.stages(); s-- > 0;) {
    most = std::max(most, around[s] + behind + cost.slice_seconds(s, 0, length, Pass::forward) +
                              cost.slice_seconds(s, 0, length, Pass::backward));
    behind += transfer;
    for (const Pass pass : {Pass::forward, Pass::backward})
      behind += cost.pack_seconds(s, pass) + cost.slice_seconds(s, length - piece, length, pass);
  }
  return most;
}

/// Least `chain_seconds` over all groups of up to `pipelines` members, or anything not above `enough`.
template <CostModel C>
[[nodiscard]] double longest_chain(Tokens length, Tokens piece, std::size_t pipelines, const C& cost,
                                   std::span<const double> around, double enough) {
  double least = chain_seconds(length, piece, cost, around);
  if constexpr (MergeableCostModel<C>) {
    for (std::int32_t g = 2; g <= static_cast<std::int32_t>(pipelines) && least > enough; ++g) {
      if (!cost.supports_context_parallel(g)) continue;
      least = std::min(least, chain_seconds(length, piece, cost.with_context_parallel(g), around));
    }
  }
  return least;
}

}  // namespace detail

/// Bound for `pipelines` equal pipelines that may split, merge, pack and order samples in any way.
///
/// Work: stage s of some pipeline holds at least the mean work of stage s, plus the constants of one forward
/// and one backward pack, plus filling and draining. Sample: every stage runs all forward and all backward
/// slices of the longest sample, on the group that takes least time for it, and in between its last,
/// indivisible piece passes the stages behind and comes back. Holds for a cost model whose
/// slices are not cheaper in parts than whole and whose merged slices save no total work, as those of this
/// library. O(samples * stages).
/// @param tile of which slice boundaries are multiples, except at the end of a sample; 1 = any boundary.
template <CostModel C>
[[nodiscard]] StepLowerBound step_lower_bound(std::span<const Tokens> lengths, std::size_t pipelines,
                                              const C& cost, Tokens tile = 1) {
  require(tile > 0, "tile is ", tile, "; expected at least 1 token");
  const double share = static_cast<double>(pipelines);
  const std::vector<double> around = detail::fill_and_drain(cost, share);
  StepLowerBound bound;
  std::vector<double> work(cost.stages(), 0.0);
  add_sample_seconds(cost, lengths, work);
  for (std::size_t s = 0; s < work.size(); ++s)
    bound.work = std::max(bound.work, around[s] + work[s] / share);
  if (lengths.empty()) return bound;
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  bound.sample =
      detail::longest_chain(longest, (longest - 1) % tile + 1, pipelines, cost, around, bound.work);
  return bound;
}

}  // namespace slimpack
