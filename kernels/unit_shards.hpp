#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/model/weights.hpp"
#include "slimpack/strategy/reshard_shards.hpp"

namespace slimpack::kernels {

/// The part of a model that is one unit: the embedding, a layer, or the final norm with the output head.
[[nodiscard]] inline StagePart unit_part(const Transformer& model, std::size_t unit) {
  const auto place = static_cast<std::int32_t>(unit);
  const bool layer = place > 0 && place <= model.layers;
  return {.model = model,
          .first_layer = layer ? place - 1 : 0,
          .layers = layer ? 1 : 0,
          .first = place == 0,
          .last = place == model.layers + 1};
}

/// Shares that any tensor parallelism puts together, of which the vector of a unit consists: one for each key/value head.
/// After them comes what all tensor-parallel ranks have, the norms (`WeightLayout::pieces`).
[[nodiscard]] inline std::size_t finest_shares(const Transformer& model) {
  return static_cast<std::size_t>(model.kv_heads);
}

/// The pieces of a rank's units, as they stand one after another in the units' vectors.
[[nodiscard]] inline std::vector<WeightPiece> vector_pieces(const WeightLayout& layout,
                                                            const Transformer& model) {
  return layout.pieces(finest_shares(model));
}

/// `propagation_shards` of ranks that run a strategy here: shares of heads, of columns of the MLP and of the vocabulary, which
/// need not be equal; and norms, which each of a stage's tensor-parallel ranks has.
/// @throws InvalidInput as `propagation_shards` and `require_tensor_ranks`. Complexity: O(numbers of a unit / numbers in a
/// row + layers * ranks of a stage of all pipelines).
[[nodiscard]] inline ParameterShards stage_shards(const Strategy& strategy, const Transformer& model) {
  for (const PipelineSpec& spec : strategy.pipelines)
    require_tensor_ranks(model, static_cast<std::size_t>(std::max(spec.tp, 0)));
  const std::size_t shares = finest_shares(model);
  // Of the embedding, a layer and the head: where each share begins, and where the last one ends.
  std::vector<std::vector<std::int64_t>> begins;
  for (const std::size_t unit :
       {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(model.layers) + 1}) {
    std::vector<std::int64_t>& begin = begins.emplace_back(1, 0);
    for (const WeightPiece& piece : vector_pieces(WeightLayout(unit_part(model, unit)), model))
      begin.push_back(begin.back() + static_cast<std::int64_t>(piece.size()));
  }
  const ParameterShards equal = propagation_shards(strategy, model);  // checks, and knows who holds what
  ParameterShards out{equal.sizes, {}};
  for (std::size_t unit = 0; unit < out.units(); ++unit) {
    const auto& begin = begins[unit == 0 ? 0 : unit + 1 == out.units() ? 2 : 1];
    std::vector<ParameterShard> shards;
    const std::vector<std::size_t> stages = slimpack::detail::stages_of_unit(strategy, unit, out.units());
    for (std::size_t p = 0; p < stages.size(); ++p) {
      const PipelineSpec& spec = strategy.pipelines[p];
      const auto tp = static_cast<std::size_t>(spec.tp);
      const std::vector<DeviceId>& devices = spec.devices[stages[p]];
      for (std::size_t i = 0; i < devices.size(); ++i) {
        const std::size_t rank = i % tp, end = (rank + 1) * (shares / tp);
        const bool reaches_common = end == shares;
        shards.push_back(
            {devices[i], begin[rank * (shares / tp)], reaches_common ? out.sizes[unit] : begin[end]});
        if (!reaches_common) shards.push_back({devices[i], begin[shares], out.sizes[unit]});
      }
    }
    slimpack::detail::add_unit(std::move(shards), out.shards);
  }
  return out;
}

}  // namespace slimpack::kernels
