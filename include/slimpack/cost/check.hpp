#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/features.hpp"
#include "slimpack/model/strategy.hpp"

namespace slimpack {

namespace detail {

/// @param whose what the stages belong to, and @param kind of which pipelines, in messages.
inline void require_stages(const char* whose, std::size_t kind, std::size_t stages,
                           const PipelineSpec& spec) {
  require(stages == spec.stages(), "the ", whose, " has ", stages, " stages; expected the ", spec.stages(),
          " of the strategy's pipelines of kind ", kind);
}

inline void require_layers(const char* whose, std::size_t kind, std::span<const std::int32_t> layers,
                           const PipelineSpec& spec) {
  require_stages(whose, kind, layers.size(), spec);
  for (std::size_t s = 0; s < layers.size(); ++s) {
    require(layers[s] == spec.layers[s], "the ", whose, " has ", layers[s], " layers on stage ", s,
            "; expected the ", spec.layers[s], " of the strategy's pipelines of kind ", kind);
  }
}

/// Checks a memory model's bytes for one stage: no negative, infinite or unknown ones.
template <MemoryModel M>
void require_bytes(const M& memory, std::size_t stage, std::int32_t layers) {
  const auto check = [&](double bytes, const auto&... what) {
    require(bytes >= 0.0 && std::isfinite(bytes), "the memory model has ", bytes, " bytes for ", what...,
            " on stage ", stage, "; expected zero or a positive number");
  };
  check(memory.static_bytes(stage), "what is always there");
  for (std::int32_t r = 0; r <= layers; ++r)
    check(memory.activation_bytes(stage, r), "a token's activations with ", r, " layers recomputed");
  check(memory.kv_gradient_bytes(stage), "a token's gradients of keys and values");
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    check(memory.workspace_bytes(stage, pass, 1, 0), "the workspace of one token, ",
          pass == Pass::forward ? "forward" : "backward");
  }
}

template <CostModel C, MemoryModel M>
void check_kind(const C& cost, const M& memory, const PipelineSpec& spec, std::size_t kind) {
  require_stages("cost model", kind, cost.stages(), spec);
  if constexpr (LayeredCostModel<C>) require_layers("cost model", kind, cost.layers(), spec);
  if constexpr (requires { memory.layers(); }) {
    require_layers("memory model", kind, memory.layers(), spec);
  } else if constexpr (requires { memory.stages(); }) {
    require_stages("memory model", kind, memory.stages(), spec);
  }
  constexpr std::array<Tokens, 3> lengths{1, 100, 10000};
  require_durations(cost, lengths);
  const double sync = sync_seconds(cost);
  require(sync >= 0.0 && std::isfinite(sync), "the cost model takes ", sync,
          " seconds for synchronisation; expected zero or a positive number");
  const double capacity = memory.capacity_bytes();
  require(capacity > 0.0, "the memory model has a capacity of ", capacity,
          " bytes; expected a positive number");
  for (std::size_t s = 0; s < spec.stages(); ++s) require_bytes(memory, s, spec.layers[s]);
}

}  // namespace detail

/// Checks once, before anything is planned, that models are of a strategy's pipelines: as many stages, the same layers,
/// valid durations and numbers of bytes. Layers are compared where a model states them (`layers()`), and a memory model's
/// stages where it states them (`layers()` or `stages()`). Each kind of pipelines has models of its own.
/// @param costs, memories one for each kind, in their order.
/// @throws InvalidInput naming the first stage, layer or number that is wrong, and what is expected.
/// Complexity: O(pipelines + layers) prices.
template <CostModel C, MemoryModel M>
void check_models(std::span<const C> costs, std::span<const M> memories, const Strategy& strategy) {
  validate_kinds(strategy);
  const std::size_t kinds = strategy.kinds();
  require(costs.size() == kinds, "there are ", costs.size(), " cost models; expected ", kinds,
          ", one for each kind of pipelines");
  require(memories.size() == kinds, "there are ", memories.size(), " memory models; expected ", kinds,
          ", one for each kind of pipelines");
  for (std::size_t k = 0; k < kinds; ++k)
    detail::check_kind(costs[k], memories[k], strategy.spec_of_kind(static_cast<std::uint32_t>(k)), k);
}

/// The same for a strategy of one kind of pipelines.
template <CostModel C, MemoryModel M>
void check_models(const C& cost, const M& memory, const Strategy& strategy) {
  check_models(std::span<const C>(&cost, 1), std::span<const M>(&memory, 1), strategy);
}

}  // namespace slimpack
