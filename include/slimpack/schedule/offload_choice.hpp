#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/cost/memory_prices.hpp"
#include "slimpack/cost/prices.hpp"
#include "slimpack/schedule/recompute.hpp"
#include "slimpack/schedule/schedule.hpp"

namespace slimpack {

/// Seconds that both passes of a pack take longer for each layer that waits in the host's memory.
/// @param[out] seconds [backward pack * stages + stage]. @pre the prices know of a host. O(slices + packs * stages).
inline void price_offload(GroupPrices& prices, const PackRows& backward, std::size_t stages,
                          std::vector<double>& seconds) {
  seconds.resize(backward.packs.size() * stages);
  for (std::size_t k = 0; k < backward.packs.size(); ++k) {
    const Prices& own = prices.shared_by(backward.sharers[k]);
    const Tokens tokens = count_tokens(backward.packs[k]);
    for (std::size_t s = 0; s < stages; ++s) {
      seconds[k * stages + s] =
          own.offload_seconds(s, tokens, Pass::forward) + own.offload_seconds(s, tokens, Pass::backward);
    }
  }
}

/// Lets layers wait in the host's memory, none of them recomputed, that free at least as much of the device's memory as
/// recomputed ones would. @returns the number of layers; 0 if all of the stage's layers free less. O(layers).
[[nodiscard]] inline std::int32_t offload_in_place_of(const Memory& memory, std::size_t stage,
                                                      std::int32_t recompute) {
  const double most = memory.activation_bytes(stage, recompute);
  for (std::int32_t layers = 1; layers <= memory.recompute_limit(stage); ++layers) {
    if (memory.activation_bytes(stage, 0, layers) <= most) return layers;
  }
  return 0;
}

/// Takes the cheapest of three choices for the layers that packs would recompute: where moving them to the host's memory and back
/// takes less time, they wait there. Each stage lets the packs that gain most do so, all of them or a half, a quarter and so on,
/// as far as layers on their way fit.
/// @param recompute_seconds, offload_seconds of one layer, [backward pack * stages + stage].
/// @param fits whether a stage fits with what is recomputed and offloaded: `bool(std::size_t stage, const Recompute&)`.
/// O(stages * (packs log packs + log packs calls of `fits`)).
template <class Fits>
[[nodiscard]] Recompute choose_offload(std::size_t packs, const Memory& memory, const Recompute& recompute,
                                       std::span<const double> recompute_seconds,
                                       std::span<const double> offload_seconds, Fits&& fits) {
  struct Choice {
    std::size_t pack;
    std::int32_t offload;
    double gain;  // seconds
  };
  const std::size_t stages = memory.stages();
  std::vector<std::int32_t> layers(packs * stages), offload(packs * stages, 0);
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i] = recompute(i / stages, i % stages);
  for (std::size_t s = 0; s < stages; ++s) {
    std::vector<Choice> choices;
    for (std::size_t k = 0; k < packs; ++k) {
      const std::size_t i = k * stages + s;
      const std::int32_t instead = layers[i] == 0 ? 0 : offload_in_place_of(memory, s, layers[i]);
      const double gain = layers[i] * recompute_seconds[i] - instead * offload_seconds[i];
      if (instead > 0 && gain > 0.0) choices.push_back({k, instead, gain});
    }
    std::stable_sort(choices.begin(), choices.end(), [](auto& a, auto& b) { return a.gain > b.gain; });
    for (std::size_t count = choices.size(); count > 0; count /= 2) {
      std::vector<std::int32_t> own_layers = layers, own_offload = offload;
      for (const Choice& choice : std::span(choices).first(count)) {
        own_layers[choice.pack * stages + s] = 0;
        own_offload[choice.pack * stages + s] = choice.offload;
      }
      if (!fits(s, Recompute(stages, own_layers, own_offload))) continue;
      layers = std::move(own_layers);
      offload = std::move(own_offload);
      break;
    }
  }
  return {stages, std::move(layers), std::move(offload)};
}

}  // namespace slimpack
