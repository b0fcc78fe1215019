#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/partition/rank_domain.hpp"

namespace slimpack::detail {

/// Limits of tokens per rank to try, a factor of the square root of two apart: from the least, through the longest
/// sample, with which none has to be shared, to one with which a row holds the whole batch, however its samples are
/// distributed. Ascending. @param given the only limit to try; 0: none. O(samples).
[[nodiscard]] inline std::vector<Tokens> limits_of_tokens(const RankDomain& domain, Tokens given) {
  if (given > 0) return {given};
  const std::span<const Tokens> lengths = domain.lengths();
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  const double share =
      std::accumulate(lengths.begin(), lengths.end(), 0.0) / static_cast<double>(domain.ranks());
  const auto least = static_cast<double>(domain.least_limit());
  const double most = std::max(static_cast<double>(longest), 2.0 * share);
  const int steps = static_cast<int>(std::ceil(2.0 * std::log2(most / least)));
  std::vector<Tokens> limits{longest};
  for (int i = 0; i <= steps; ++i)
    limits.push_back(static_cast<Tokens>(std::ceil(least * std::exp2(0.5 * i))));
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  return limits;
}

/// Seconds of a step if ranks have equal work, each sample runs on the smallest group that the limit allows, and packs are equal
/// and full, so that as many of them as there are other stages fill and drain the pipeline. No bound: real packs may be lighter.
/// @param domain with work in seconds of all stages. @pre the largest group holds each sample with this limit.
/// O(samples * sizes).
[[nodiscard]] inline double promised_seconds(const RankDomain& domain, Tokens limit, std::size_t stages) {
  double work = 0.0, tokens = 0.0;
  for (SampleId id = 0; id < domain.samples(); ++id) {
    work += domain.group_work(id, limit);
    tokens += static_cast<double>(domain.length(id));
  }
  const auto ranks = static_cast<double>(domain.ranks());
  const double packs = std::max(1.0, tokens / ranks / static_cast<double>(limit));
  const auto n = static_cast<double>(stages);
  return work / ranks / n * (1.0 + (n - 1.0) / packs);
}

/// Tries limits around the best: a factor of 2^(1/4) above and below it, then of 2^(1/8).
/// @param best is what `try_limit` changes if it finds a better one; 0: none is known, and nothing is tried.
template <class Try>
void try_limits_around(const Tokens& best, const Try& try_limit) {
  for (const double step : {0.25, 0.125}) {
    const auto middle = static_cast<double>(best);
    for (const double direction : {1.0, -1.0}) {
      if (middle > 0.0) try_limit(static_cast<Tokens>(middle * std::exp2(direction * step)));
    }
  }
}

}  // namespace slimpack::detail
