#pragma once

#include <cstddef>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/cost/priced_models.hpp"

namespace slimpack::detail {

/// Lengths at which models are asked.
[[nodiscard]] inline std::vector<Tokens> probe_lengths() {
  std::vector<Tokens> lengths;
  for (int bit = 0; bit <= 20; bit += 4) lengths.push_back(Tokens{1} << bit);
  return lengths;
}

/// What models say of samples of some lengths and of every stage, but for transfers. Models that agree on that are
/// taken to price and hold samples alike.
[[nodiscard]] inline std::vector<double> sample_probes(const PricedModels& models) {
  const Prices& prices = models.prices.alone();
  const Memory& memory = models.memory;
  std::vector<double> probes{static_cast<double>(prices.stages()), static_cast<double>(prices.ranks()),
                             static_cast<double>(models.useful_tokens)};
  for (std::size_t s = 0; s < prices.stages(); ++s) {
    probes.push_back(static_cast<double>(memory.recompute_limit(s)));
    probes.push_back(memory.room_bytes(s));
    probes.push_back(memory.kv_gradient_bytes(s));
    probes.push_back(memory.activation_bytes(s, 0));
    probes.push_back(memory.activation_bytes(s, memory.recompute_limit(s)));
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      probes.push_back(prices.pack_seconds(s, pass));
      for (const Tokens tokens : probe_lengths()) {
        probes.push_back(prices.slice_seconds(s, 0, tokens, pass));
        probes.push_back(memory.workspace_bytes(s, pass, tokens, tokens, 1, memory.recompute_limit(s)));
      }
    }
  }
  return probes;
}

/// The same with transfers between stages. Models that agree on that are taken to agree.
[[nodiscard]] inline std::vector<double> model_probes(const PricedModels& models) {
  const Prices& prices = models.prices.alone();
  std::vector<double> probes = sample_probes(models);
  for (std::size_t s = 0; s + 1 < prices.stages(); ++s) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const Tokens tokens : probe_lengths()) probes.push_back(prices.transfer_seconds(s, tokens, pass));
    }
  }
  return probes;
}

}  // namespace slimpack::detail
