#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/strategy/efficient_schemes.hpp"
#include "slimpack/strategy/length_histogram.hpp"
#include "slimpack/strategy/place_pipelines.hpp"
#include "slimpack/strategy/proposal.hpp"
#include "slimpack/strategy/round_proposal.hpp"
#include "slimpack/strategy/schemes.hpp"
#include "slimpack/strategy/usable_schemes.hpp"

namespace slimpack {

/// Which strategies are proposed.
struct StrategySpace {
  SchemeSpace schemes = {};
  ProposalOptions proposal = {};
  Tokens interval = 128;        ///< least width of an interval of lengths, in tokens
  std::int64_t intervals = 64;  ///< at most about so many: where there would be more, they are wider
};

namespace detail {

/// Of strategies, each once: [scheme] pipelines.
using PipelineCounts = std::set<std::vector<std::int64_t>>;

/// Adds the strategies of a single scheme, with as many pipelines as there are devices for.
inline void add_single_schemes(std::span<const ProposalScheme> schemes, std::int64_t devices,
                               PipelineCounts& found) {
  for (std::size_t k = 0; k < schemes.size(); ++k) {
    std::vector<std::int64_t> alone(schemes.size(), 0);
    alone[k] = devices / schemes[k].ranks;
    found.insert(std::move(alone));
  }
}

/// Adds what is proposed for each interval's end as the length of the longest sample, rounded to whole pipelines.
/// @param longest sample of all.
inline void add_proposals(std::span<const ProposalScheme> schemes, std::span<const Tokens> ends,
                          Tokens longest, std::int64_t devices, const ProposalOptions& options,
                          PipelineCounts& found) {
  const std::vector<std::size_t> kept = efficient_schemes(schemes);
  std::vector<ProposalScheme> efficient;
  efficient.reserve(kept.size());
  for (const std::size_t k : kept) efficient.push_back(schemes[k]);
  if (efficient.empty()) return;
  const std::vector<ProposedStrategy> proposed = propose_strategies(efficient, ends, devices, options);
  for (std::size_t l = 0; l < ends.size(); ++l) {
    if (proposed[l].steps.empty()) continue;
    for (const std::vector<std::int64_t>& pipelines :
         round_proposal(proposed[l], efficient, std::min(ends[l], longest), devices, options)) {
      std::vector<std::int64_t> of_all(schemes.size(), 0);
      for (std::size_t i = 0; i < kept.size(); ++i) of_all[kept[i]] = pipelines[i];
      found.insert(std::move(of_all));
    }
  }
}

/// @throws InvalidInput if all strategies leave devices idle. O(strategies * schemes).
inline void require_all_devices(const PipelineCounts& found, std::span<const UsableScheme> usable,
                                std::int64_t devices) {
  std::int64_t most = 0, smallest = devices;
  for (const UsableScheme& each : usable) smallest = std::min(smallest, each.scheme.ranks());
  for (const std::vector<std::int64_t>& pipelines : found) {
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < pipelines.size(); ++k) sum += pipelines[k] * usable[k].scheme.ranks();
    most = std::max(most, sum);
  }
  require(most == devices, "pipelines take at most ", most, " of ", devices,
          " devices, for the smallest that the model fits on has ", smallest,
          "; expected a number of devices that pipelines divide, such as ", most, " or ", most + smallest);
}

/// The strategies with their pipelines on devices, in both placements where these differ.
[[nodiscard]] inline std::vector<Strategy> placed_strategies(const PipelineCounts& found,
                                                             std::span<const UsableScheme> usable,
                                                             const Transformer& model, const Device& device,
                                                             std::int64_t devices) {
  std::vector<Strategy> strategies;
  for (const std::vector<std::int64_t>& pipelines : found) {
    std::vector<SchemeCount> counts;
    for (std::size_t k = 0; k < pipelines.size(); ++k) counts.push_back({usable[k].scheme, pipelines[k]});
    strategies.push_back(place_pipelines(model, device, devices, counts));
    Strategy other = place_pipelines(model, device, devices, std::move(counts), Placement::by_stage);
    if (other != strategies.back()) strategies.push_back(std::move(other));
  }
  return strategies;
}

}  // namespace detail

/// Strategies worth looking at for batches of a data set: what Hydraulis proposes for each length up to which a batch
/// may have samples, rounded to whole pipelines, and those of a single scheme.
/// @param histogram of the data set. @throws InvalidInput if the space is impossible, or no scheme holds the longest
/// sample: with the scheme that comes closest; or if all strategies leave devices idle. Source: Hydraulis, section 7.
/// O(schemes * lengths) and the proposal.
[[nodiscard]] inline std::vector<Strategy> candidate_strategies(const LengthHistogram& histogram,
                                                                const Transformer& model,
                                                                const Device& device,
                                                                const MakeKindModels& make,
                                                                const StrategySpace& space, bool recompute) {
  const std::int64_t devices = space.schemes.devices;
  const Tokens longest = histogram.longest();
  require(space.interval > 0, "interval is ", space.interval, "; expected at least 1 token");
  std::string reason;
  std::vector<detail::UsableScheme> usable =
      detail::usable_schemes(model, device, space.schemes, make, reason);
  require(!usable.empty(), "no scheme of ", devices, " devices can be used (", reason, ")");
  require(space.intervals > 0, "intervals is ", space.intervals, "; expected at least 1");
  const Tokens width = std::max(space.interval, (longest + space.intervals - 1) / space.intervals);
  const std::vector<Tokens> ends = histogram.interval_ends(width);
  detail::PipelineCounts found;
  Tokens most = 0;
  std::size_t closest = 0;
  for (const bool all_layers : {false, true}) {
    if (all_layers && !recompute) continue;
    const auto schemes = detail::proposal_schemes(usable, histogram, ends, all_layers);
    for (std::size_t k = 0; k < schemes.size(); ++k) {
      if (schemes[k].max_tokens > most) closest = k;
      most = std::max(most, schemes[k].max_tokens);
    }
    detail::add_single_schemes(schemes, devices, found);
    detail::add_proposals(schemes, ends, longest, devices, space.proposal, found);
  }
  require(most >= longest, "a sample of ", longest, " tokens fits no scheme of ", devices, " devices; (",
          to_text(usable[closest].scheme), ") comes closest with ", most, ", and ",
          detail::lacks_text(usable[closest].models.memory, longest, recompute),
          "; expected shorter samples, more devices or more memory");
  detail::require_all_devices(found, usable, devices);
  return detail::placed_strategies(found, usable, model, device, devices);
}

}  // namespace slimpack
