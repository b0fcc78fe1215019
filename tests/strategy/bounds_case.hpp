#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/strategy/calibrated_kinds.hpp"
#include "slimpack/strategy/place_pipelines.hpp"
#include "slimpack/strategy/strategy_set.hpp"

namespace slimpack::testing {

/// Three strategies of llama-7b on 16 A800, and samples with a heavy tail; with an odd seed, more of them than classes.
struct BoundsCase {
  Transformer model = transformer_preset("llama-7b");
  Device device = device_preset("a800");
  MakeKindModels make = calibrated_kinds(model, device);
  std::vector<Tokens> lengths;
  std::vector<Strategy> strategies;

  explicit BoundsCase(unsigned seed) {
    std::mt19937 random(seed);
    lengths.resize(1 + random() % (seed % 2 == 0 ? 100 : 400));
    for (Tokens& length : lengths) {
      const double x = static_cast<double>(random() % 1000 + 1) / 1000.0;
      length = 1 + static_cast<Tokens>(20000.0 * x * x * x * x);
    }
    const std::vector<std::vector<SchemeCount>> all{
        {{{4, 1, 2}, 2}}, {{{8, 1, 1}, 1}, {{2, 1, 2}, 2}}, {{{8, 1, 1}, 1}, {{2, 1, 1}, 4}}};
    for (const std::vector<SchemeCount>& counts : all)
      strategies.push_back(place_pipelines(model, device, 16, counts));
  }

  [[nodiscard]] StrategySet set() const { return {model, strategies, make}; }
};

}  // namespace slimpack::testing
