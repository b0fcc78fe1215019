#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/strategy/proposal.hpp"

namespace slimpack {

namespace detail {

/// Gives devices that are left over to more pipelines: each time to the scheme that does the whole data set in the fewest
/// device-seconds, of those that fit.
inline void fill_devices(std::span<const ProposalScheme> schemes, std::span<const double> device_seconds,
                         std::int64_t left, std::vector<std::int64_t>& pipelines) {
  for (;;) {
    std::size_t best = schemes.size();
    for (std::size_t k = 0; k < schemes.size(); ++k) {
      const bool fits = schemes[k].ranks <= left && schemes[k].max_tokens > 0;
      if (fits && (best == schemes.size() || device_seconds[k] < device_seconds[best])) best = k;
    }
    if (best == schemes.size()) return;
    pipelines[best] += left / schemes[best].ranks;
    left %= schemes[best].ranks;
  }
}

}  // namespace detail

/// The whole numbers of pipelines next to what was proposed: each part of a pipeline is left out or made whole, in all
/// combinations that the devices allow and that hold samples of `longest` tokens; devices left over go to more
/// pipelines.
/// @returns [strategy][scheme] pipelines, each strategy once, ascending. @throws InvalidInput if a strategy has parts
/// of more than 20 schemes. Source: Hydraulis, section 7. O(2^schemes with parts * schemes).
[[nodiscard]] inline std::vector<std::vector<std::int64_t>> round_proposal(
    const ProposedStrategy& proposed, std::span<const ProposalScheme> schemes, Tokens longest,
    std::int64_t devices, const ProposalOptions& options = {}) {
  std::vector<double> device_seconds;
  for (const ProposalScheme& scheme : schemes) {
    double sum = 0.0;
    for (const double s : scheme.seconds) sum += s;
    device_seconds.push_back(sum * static_cast<double>(scheme.ranks));
  }
  std::vector<std::size_t> parts;
  for (std::size_t k = 0; k < proposed.steps.size(); ++k) {
    if (proposed.steps[k] % options.steps != 0) parts.push_back(k);
  }
  require(parts.size() <= 20, "the strategy has parts of pipelines of ", parts.size(),
          " schemes; expected at most 20");
  std::vector<std::vector<std::int64_t>> out;
  for (std::uint32_t up = 0; up < (std::uint32_t{1} << parts.size()); ++up) {
    std::vector<std::int64_t> pipelines;
    for (const std::int64_t steps : proposed.steps) pipelines.push_back(steps / options.steps);
    for (std::size_t i = 0; i < parts.size(); ++i) pipelines[parts[i]] += up >> i & 1;
    std::int64_t left = devices;
    bool holds = false;
    for (std::size_t k = 0; k < pipelines.size(); ++k) {
      left -= pipelines[k] * schemes[k].ranks;
      holds = holds || (pipelines[k] > 0 && schemes[k].max_tokens >= longest);
    }
    if (left < 0 || !holds) continue;
    detail::fill_devices(schemes, device_seconds, left, pipelines);
    out.push_back(std::move(pipelines));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace slimpack
