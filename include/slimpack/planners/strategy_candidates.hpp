#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/planners/hydraulis_options.hpp"
#include "slimpack/planners/strategy_models.hpp"
#include "slimpack/schedule/full_pack.hpp"
#include "slimpack/strategy/length_histogram.hpp"
#include "slimpack/strategy/place_pipelines.hpp"
#include "slimpack/strategy/proposal.hpp"
#include "slimpack/strategy/round_proposal.hpp"
#include "slimpack/strategy/schemes.hpp"

namespace slimpack {

namespace detail {

/// A scheme on which the model can be trained, with its models.
struct UsableScheme {
  Scheme scheme;
  PricedModels models;
};

/// The schemes on whose devices the weights leave room for tokens; models are those of a strategy of this scheme alone.
/// @param[out] reason why the last scheme that can't be used can't.
[[nodiscard]] inline std::vector<UsableScheme> usable_schemes(const Transformer& model, const Device& device,
                                                              const SchemeSpace& space,
                                                              const MakeKindModels& make,
                                                              std::string& reason) {
  std::vector<UsableScheme> usable;
  for (const Scheme& scheme : schemes(model, device, space)) {
    const Strategy alone =
        place_pipelines(model, device, space.devices, {{scheme, space.devices / scheme.ranks()}});
    try {
      usable.push_back({scheme, make(alone, 0)});
    } catch (const InvalidInput& error) {
      reason = concat(to_text(scheme), ": ", error.what());
    }
  }
  return usable;
}

/// What the proposal asks of schemes; they hold no more than the longest sample. @param recompute whether packs may
/// recompute all layers.
[[nodiscard]] inline std::vector<ProposalScheme> proposal_schemes(std::span<UsableScheme> usable,
                                                                  const LengthHistogram& histogram,
                                                                  std::span<const Tokens> ends,
                                                                  bool recompute) {
  std::vector<Tokens> lengths;
  for (const LengthHistogram::Entry& entry : histogram.entries()) lengths.push_back(entry.length);
  std::vector<ProposalScheme> out;
  for (UsableScheme& each : usable) {
    const std::int32_t layers = recompute ? std::numeric_limits<std::int32_t>::max() : 0;
    const SamplePrices prices(lengths, {}, each.models.prices);
    std::size_t next = 0;
    out.push_back({.ranks = each.scheme.ranks(),
                   .max_tokens = std::min(largest_full_pack(each.models.memory, layers), histogram.longest()),
                   .seconds = histogram.sum_by_interval(
                       ends, [&](Tokens) { return prices.whole(static_cast<SampleId>(next++)); })});
  }
  return out;
}

/// Schemes that no other one makes superfluous: with no more devices a pipeline it holds samples as long, and needs no more
/// device-seconds for any interval. Ascending. O(schemes² * intervals).
[[nodiscard]] inline std::vector<std::size_t> efficient_schemes(std::span<const ProposalScheme> schemes) {
  const auto beats = [&](std::size_t j, std::size_t k) {
    const ProposalScheme &own = schemes[j], &other = schemes[k];
    if (own.ranks > other.ranks || own.max_tokens < other.max_tokens) return false;
    const double more = static_cast<double>(own.ranks) / static_cast<double>(other.ranks);
    bool less = own.ranks < other.ranks || own.max_tokens > other.max_tokens || j < k;
    for (std::size_t l = 0; l < own.seconds.size(); ++l) {
      if (own.seconds[l] * more > other.seconds[l]) return false;
      less = less || own.seconds[l] * more < other.seconds[l];
    }
    return less;
  };
  std::vector<std::size_t> kept;
  for (std::size_t k = 0; k < schemes.size(); ++k) {
    bool beaten = schemes[k].max_tokens == 0;
    for (std::size_t j = 0; !beaten && j < schemes.size(); ++j) beaten = j != k && beats(j, k);
    if (!beaten) kept.push_back(k);
  }
  return kept;
}

/// @throws InvalidInput if all strategies leave devices idle. @param found [strategy][scheme] pipelines. O(strategies * schemes).
inline void require_all_devices(const std::set<std::vector<std::int64_t>>& found,
                                std::span<const UsableScheme> usable, std::int64_t devices) {
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
  require(space.interval > 0, "interval is ", space.interval, "; expected at least 1 token");
  std::string reason;
  std::vector<detail::UsableScheme> usable =
      detail::usable_schemes(model, device, space.schemes, make, reason);
  require(!usable.empty(), "no scheme of ", space.schemes.devices, " devices can be used (", reason, ")");
  require(space.intervals > 0, "intervals is ", space.intervals, "; expected at least 1");
  const Tokens width =
      std::max(space.interval, (histogram.longest() + space.intervals - 1) / space.intervals);
  const std::vector<Tokens> ends = histogram.interval_ends(width);
  std::set<std::vector<std::int64_t>> found;
  Tokens most = 0;
  std::size_t closest = 0;
  for (const bool all : {false, true}) {
    if (all && !recompute) continue;
    const auto schemes = detail::proposal_schemes(usable, histogram, ends, all);
    for (std::size_t k = 0; k < schemes.size(); ++k) {
      if (schemes[k].max_tokens > most) closest = k;
      most = std::max(most, schemes[k].max_tokens);
      std::vector<std::int64_t> alone(schemes.size(), 0);
      alone[k] = space.schemes.devices / schemes[k].ranks;
      found.insert(std::move(alone));
    }
    const std::vector<std::size_t> kept = detail::efficient_schemes(schemes);
    std::vector<ProposalScheme> efficient;
    efficient.reserve(kept.size());
    for (const std::size_t k : kept) efficient.push_back(schemes[k]);
    if (efficient.empty()) continue;
    const auto proposed = propose_strategies(efficient, ends, space.schemes.devices, space.proposal);
    for (std::size_t l = 0; l < ends.size(); ++l) {
      if (proposed[l].steps.empty()) continue;
      for (const auto& pipelines :
           round_proposal(proposed[l], efficient, std::min(ends[l], histogram.longest()),
                          space.schemes.devices, space.proposal)) {
        std::vector<std::int64_t> of_all(schemes.size(), 0);
        for (std::size_t i = 0; i < kept.size(); ++i) of_all[kept[i]] = pipelines[i];
        found.insert(std::move(of_all));
      }
    }
  }
  require(most >= histogram.longest(), "a sample of ", histogram.longest(), " tokens fits no scheme of ",
          space.schemes.devices, " devices; (", to_text(usable[closest].scheme), ") comes closest with ",
          most, ", and ", detail::lacks_text(usable[closest].models.memory, histogram.longest(), recompute),
          "; expected shorter samples, more devices or more memory");
  detail::require_all_devices(found, usable, space.schemes.devices);
  std::vector<Strategy> strategies;
  for (const std::vector<std::int64_t>& pipelines : found) {
    std::vector<SchemeCount> counts;
    for (std::size_t k = 0; k < pipelines.size(); ++k) counts.push_back({usable[k].scheme, pipelines[k]});
    strategies.push_back(place_pipelines(model, device, space.schemes.devices, counts));
    Strategy other =
        place_pipelines(model, device, space.schemes.devices, std::move(counts), Placement::by_stage);
    if (other != strategies.back()) strategies.push_back(std::move(other));
  }
  return strategies;
}

}  // namespace slimpack
