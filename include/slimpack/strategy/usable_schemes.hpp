#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/partition/sample_prices.hpp"
#include "slimpack/schedule/full_pack.hpp"
#include "slimpack/strategy/length_histogram.hpp"
#include "slimpack/strategy/place_pipelines.hpp"
#include "slimpack/strategy/proposal.hpp"
#include "slimpack/strategy/schemes.hpp"
#include "slimpack/strategy/strategy_models.hpp"

namespace slimpack::detail {

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

}  // namespace slimpack::detail
