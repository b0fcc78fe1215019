#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/core/solve.hpp"
#include "slimpack/partition/capped_bound.hpp"
#include "slimpack/partition/capped_search.hpp"
#include "slimpack/partition/dispatch.hpp"

namespace slimpack {

struct PackPipelineOptions {
  /// Packs should have at least so many tokens on average, because shorter ones leave the device idle: UtilLen(P). 0: any.
  Tokens useful_tokens = 0;
  /// The search for one number of packs: it ends within this share of its bound …
  double gap = 1e-3;
  std::uint64_t max_exchange_steps = 20000;  ///< … or after so many subsets …
  std::uint64_t max_exact_steps = 20000;     ///< … and, with few samples, so many nodes.
  /// Numbers of packs that are searched, those with the least bounds first.
  std::size_t most_counts = std::numeric_limits<std::size_t>::max();
};

/// A pipeline's samples in packs.
struct PipelinePacking {
  std::size_t packs = 0;
  std::vector<std::uint32_t> pack;                           ///< [sample]; empty: the samples do not fit
  double seconds = std::numeric_limits<double>::infinity();  ///< Eq. 1's objective
  double bound = 0.0;  ///< no packing is below, with any number of packs in the range or up to the answer's

  [[nodiscard]] double gap() const { return bound > 0.0 && seconds > bound ? seconds / bound - 1.0 : 0.0; }
};

/// Packs a pipeline's samples so that 1F1B takes little: (PP - 1 + V) times the longest of V packs, with the number of packs for
/// which that is least. Numbers that can't be better than the best so far are not tried.
/// @param seconds T(l, P) of each sample, of one stage. @param tokens of each. @param kind of the pipeline.
/// @param pack_seconds a pack's own constant on that stage.
/// @throws InvalidInput if a sample is longer than a pack, or a number makes no sense.
/// Source: Hydraulis, Eq. 1 and appendix C. O(numbers of packs tried * `capped_search`).
[[nodiscard]] inline PipelinePacking pack_pipeline(std::span<const double> seconds,
                                                   std::span<const Tokens> tokens, const PipelineKind& kind,
                                                   double pack_seconds = 0.0,
                                                   const PackPipelineOptions& options = {}) {
  require(seconds.size() == tokens.size(), seconds.size(), " seconds of ", tokens.size(),
          " samples; expected one for each");
  require(kind.stages > 0, "the pipeline has 0 stages; expected at least one");
  require(options.useful_tokens >= 0, "useful_tokens is ", options.useful_tokens, "; expected 0 or more");
  PipelinePacking best;
  if (tokens.empty()) return {.packs = 0, .pack = {}, .seconds = 0.0, .bound = 0.0};
  const auto longest = std::max_element(tokens.begin(), tokens.end());
  require(*longest <= kind.max_tokens, "sample ", longest - tokens.begin(), " has ", *longest,
          " tokens; expected at most the ", kind.max_tokens, " of a pack");
  const double work = std::accumulate(seconds.begin(), seconds.end(), 0.0),
               most = *std::max_element(seconds.begin(), seconds.end());
  const Tokens all = std::accumulate(tokens.begin(), tokens.end(), Tokens{0});
  const std::size_t least_packs = packing_lower_bound(tokens, kind.max_tokens);
  const std::size_t useful =
      options.useful_tokens > 0 ? static_cast<std::size_t>(all / options.useful_tokens) : tokens.size();
  const std::size_t most_packs = std::max(least_packs, std::min(tokens.size(), useful));
  const auto objective = [&](std::size_t packs, double slowest) {
    return static_cast<double>(kind.stages - 1 + packs) * (slowest + pack_seconds);
  };
  const SizeLimit limit{tokens, kind.max_tokens};
  const auto least = [&](std::size_t packs) {
    return objective(packs, std::max(most, work / static_cast<double>(packs)));
  };
  std::vector<std::pair<double, std::size_t>> counts;  // bound of a number of packs, and that number
  for (std::size_t packs = least_packs; packs <= most_packs; ++packs)
    counts.emplace_back(least(packs), packs);
  std::sort(counts.begin(), counts.end());
  best.bound = counts.front().first;
  const auto search = [&](std::size_t packs) {
    const auto found = capped_search(seconds, limit, packs,
                                     {.gap = options.gap,
                                      .max_exchange_steps = options.max_exchange_steps,
                                      .max_exact_steps = options.max_exact_steps});
    if (found.assignment.bin.empty()) return;
    const double own = objective(packs, found.assignment.makespan());
    if (own < best.seconds) best = {packs, found.assignment.bin, own, best.bound};
  };
  std::size_t searched = 0;
  for (const auto& [bound, packs] : counts) {
    if (bound * (1.0 + options.gap) >= best.seconds || searched == options.most_counts) break;
    ++searched;
    search(packs);
  }
  // More packs than are useful only where so few do not fit.
  for (std::size_t packs = least_packs; packs <= tokens.size() && best.pack.empty(); ++packs) {
    best.bound = std::min(best.bound, least(packs));
    search(packs);
  }
  return best;
}

}  // namespace slimpack
