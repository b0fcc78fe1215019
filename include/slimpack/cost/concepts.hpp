#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/sharding/kind.hpp"

namespace slimpack {

/// What a planner asks of a model of time. Durations are seconds on one stage of a pipeline.
///
/// - `stages()`: number of pipeline stages.
/// - `slice_seconds(stage, begin, end, pass)`: time that tokens `[begin, end)` of a sample add to a pack; a
///   pure function, non-negative, and growing with the slice. A slice should not cost more than its parts
///   together, or no lower bound of a step can be stated. `pass` is forward or backward.
/// - `pack_seconds(stage, pass)`: constant of every pack, whatever it holds.
/// - `transfer_seconds(stage, tokens, pass)`: between `stage` and `stage + 1`, from the end of a pack of so many
///   tokens on one until the other may start it: forward from the former to the latter, backward the other way.
template <class M>
concept CostModel = requires(const M& m, std::size_t stage, Tokens begin, Tokens end, Pass pass) {
  { m.stages() } -> std::convertible_to<std::size_t>;
  { m.slice_seconds(stage, begin, end, pass) } -> std::convertible_to<double>;
  { m.pack_seconds(stage, pass) } -> std::convertible_to<double>;
  { m.transfer_seconds(stage, end, pass) } -> std::convertible_to<double>;
};

/// A cost model that can price packs which several pipelines run together, each on its share of every slice
/// (DP-Merge). Without it, no sample is merged.
template <class M>
concept MergeableCostModel = CostModel<M> && requires(const M& m, std::int32_t group) {
  { m.supports_context_parallel(group) } -> std::convertible_to<bool>;
  { m.with_context_parallel(group) } -> std::convertible_to<M>;
};

/// A cost model that can price layers which are recomputed in the backward pass. Without it, nothing is
/// recomputed.
///
/// - `recompute_seconds(stage, begin, end)`: what one of the stage's layers that is recomputed adds to a
///   backward slice; a pure function, non-negative, and growing with the slice. A slice of a pack that recomputes r
///   layers takes `slice_seconds(stage, begin, end, backward) + r * recompute_seconds(stage, begin, end)`.
template <class M>
concept RecomputingCostModel = CostModel<M> &&
    requires(const M& m, std::size_t stage, Tokens begin, Tokens end) {
  { m.recompute_seconds(stage, begin, end) } -> std::convertible_to<double>;
};

/// A cost model that can price layers whose activations wait in the host's memory.
///
/// - `offload_seconds(stage, tokens, pass)`: what one such layer adds to a pack of so many tokens, as far as nothing
///   hides it: in the forward pass its way to the host, in the backward pass its way back. A pure function, non-negative,
///   and growing with the tokens.
template <class M>
concept OffloadingCostModel = CostModel<M> &&
    requires(const M& m, std::size_t stage, Tokens tokens, Pass pass) {
  { m.offload_seconds(stage, tokens, pass) } -> std::convertible_to<double>;
};

/// A cost model that says how many layers each of its stages holds, so that these can be checked against the
/// plan's: `layers()`, one number per stage.
template <class M>
concept LayeredCostModel = CostModel<M> && requires(const M& m) {
  { m.layers() } -> std::convertible_to<std::span<const std::int32_t>>;
};

/// A cost model that can tell attention from the rest, so that the latency of a kernel can take its place.
///
/// - `other_seconds(stage, begin, end, pass)`: `slice_seconds` without attention.
/// - `attention_seconds(stage, pass, layer)`: attention of all layers of a stage when the kernel takes `layer`
///   seconds for one of them; linear.
/// - `recompute_other_seconds(stage, begin, end)`: `recompute_seconds` without attention, if the model has that.
///   The attention of a layer that is recomputed is the kernel's, forward.
template <class M>
concept SeparableCostModel = CostModel<M> &&
    requires(const M& m, std::size_t stage, Tokens begin, Tokens end, Pass pass, double layer) {
  { m.other_seconds(stage, begin, end, pass) } -> std::convertible_to<double>;
  { m.attention_seconds(stage, pass, layer) } -> std::convertible_to<double>;
} &&(!RecomputingCostModel<M> || requires(const M& m, std::size_t stage, Tokens begin, Tokens end) {
  { m.recompute_other_seconds(stage, begin, end) } -> std::convertible_to<double>;
});

/// What a planner asks of a model of memory. Bytes are per device.
///
/// - `capacity_bytes()`: what a device has.
/// - `static_bytes(stage)`: weights, gradients, optimiser states, and whatever else is always there.
/// - `activation_bytes(stage, recompute_layers)`: per token, held from the token's forward until its
///   backward, KV cache included, when this many of the stage's layers are recomputed.
/// - `kv_gradient_bytes(stage)`: per token of a sample whose backward has begun, until that token's own
///   backward.
/// - `workspace_bytes(stage, pass, tokens, recompute_layers)`: while a pack of this many tokens runs; not less
///   for more tokens.
template <class M>
concept MemoryModel = requires(const M& m, std::size_t stage, int recompute_layers, Tokens tokens,
                               Pass pass) {
  { m.capacity_bytes() } -> std::convertible_to<double>;
  { m.static_bytes(stage) } -> std::convertible_to<double>;
  { m.activation_bytes(stage, recompute_layers) } -> std::convertible_to<double>;
  { m.kv_gradient_bytes(stage) } -> std::convertible_to<double>;
  { m.workspace_bytes(stage, pass, tokens, recompute_layers) } -> std::convertible_to<double>;
};

namespace detail {

template <class M>
concept TellsExchangesApart = requires(const M& m, std::size_t stage, Pass pass, Tokens tokens,
                                       std::size_t members, KeyExchange exchange) {
  { m.exchange_bytes(stage, pass, tokens, members, exchange) } -> std::convertible_to<double>;
};

template <class M>
concept KnowsOneExchange = requires(const M& m, std::size_t stage, Pass pass, Tokens tokens,
                                    std::size_t members) {
  { m.exchange_bytes(stage, pass, tokens, members) } -> std::convertible_to<double>;
};

}  // namespace detail

/// A memory model that knows what a member of a merged pack holds besides its workspace while the pack runs, to
/// exchange with the others.
///
/// - `exchange_bytes(stage, pass, tokens, members, exchange)`: for a pack of this many tokens in all, whose members exchange
///   keys in this way; `none`: in the back end's own way. A model without the last parameter has one way.
template <class M>
concept ExchangingMemoryModel = MemoryModel<M> &&
    (detail::TellsExchangesApart<M> || detail::KnowsOneExchange<M>);

/// What a member of a pack holds to exchange with the others: nothing if it is alone, or the model knows of none.
template <MemoryModel M>
[[nodiscard]] double exchange_bytes(const M& memory, std::size_t stage, Pass pass, Tokens tokens,
                                    std::size_t members, KeyExchange exchange = KeyExchange::none) {
  if (members <= 1) return 0.0;
  if constexpr (detail::TellsExchangesApart<M>) {
    return memory.exchange_bytes(stage, pass, tokens, members, exchange);
  } else if constexpr (detail::KnowsOneExchange<M>) {
    return memory.exchange_bytes(stage, pass, tokens, members);
  } else {
    return 0.0;
  }
}

/// A memory model that knows layers whose activations wait in the host's memory (`offloaded_layers`).
///
/// - `activation_bytes(stage, recompute_layers, offload_layers)`: as `activation_bytes`, without what waits there.
/// - `host_bytes(stage, recompute_layers, offload_layers)`: per token, what waits there.
/// - `transit_bytes(stage, tokens)`: layers on their way, while a pack runs of which so many tokens have offloaded layers.
template <class M>
concept OffloadingMemoryModel = MemoryModel<M> &&
    requires(const M& m, std::size_t stage, int layers, Tokens tokens) {
  { m.activation_bytes(stage, layers, layers) } -> std::convertible_to<double>;
  { m.host_bytes(stage, layers, layers) } -> std::convertible_to<double>;
  { m.transit_bytes(stage, tokens) } -> std::convertible_to<double>;
};

/// Per token, from forward to backward on the device: everything if the model knows of no host.
template <MemoryModel M>
[[nodiscard]] double activation_bytes(const M& memory, std::size_t stage, int recompute_layers,
                                      int offload_layers) {
  if constexpr (OffloadingMemoryModel<M>) {
    if (offload_layers > 0) return memory.activation_bytes(stage, recompute_layers, offload_layers);
  }
  return memory.activation_bytes(stage, recompute_layers);
}

/// The same in the host's memory: nothing if the model knows of none.
template <MemoryModel M>
[[nodiscard]] double host_bytes(const M& memory, std::size_t stage, int recompute_layers,
                                int offload_layers) {
  if constexpr (OffloadingMemoryModel<M>) {
    if (offload_layers > 0) return memory.host_bytes(stage, recompute_layers, offload_layers);
  }
  return 0.0;
}

/// Layers on their way while a pack runs of which so many tokens have offloaded layers.
template <MemoryModel M>
[[nodiscard]] double transit_bytes(const M& memory, std::size_t stage, Tokens tokens) {
  if constexpr (OffloadingMemoryModel<M>) {
    if (tokens > 0) return memory.transit_bytes(stage, tokens);
  }
  return 0.0;
}

/// The part of `static_bytes` that is kept free for what the model doesn't know; nothing if it names none
/// (`reserve_bytes()`).
template <MemoryModel M>
[[nodiscard]] double reserve_bytes(const M& memory) {
  if constexpr (requires { memory.reserve_bytes(); }) return memory.reserve_bytes();
  return 0.0;
}

/// Constant of each of a stage's layers that a backward pack recomputes; nothing if the model knows of none
/// (`recompute_pack_seconds(stage)`).
template <CostModel M>
[[nodiscard]] double recompute_pack_seconds(const M& cost, std::size_t stage) {
  if constexpr (requires { cost.recompute_pack_seconds(stage); }) return cost.recompute_pack_seconds(stage);
  return 0.0;
}

/// Gradient synchronisation and optimiser of a step; nothing if the model knows of none (`sync_seconds()`).
template <CostModel M>
[[nodiscard]] double sync_seconds(const M& cost) {
  if constexpr (requires { cost.sync_seconds(); }) return cost.sync_seconds();
  return 0.0;
}

/// Checks that a model's times of packs, transfers and whole samples are durations.
/// @throws InvalidInput naming the first that is negative, infinite or NaN. O(samples * stages).
template <CostModel M>
void require_durations(const M& cost, std::span<const Tokens> lengths) {
  const auto check = [](double seconds, const auto&... what) {
    require(seconds >= 0.0 && std::isfinite(seconds), "the cost model takes ", seconds, " seconds for ",
            what..., "; expected zero or a positive number");
  };
  const std::size_t stages = cost.stages();
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const char* const name = pass == Pass::forward ? "forward" : "backward";
    for (std::size_t s = 0; s < stages; ++s) {
      if (s + 1 < stages) {
        check(cost.transfer_seconds(s, 1, pass), "a ", name, " transfer of one token between stages ", s,
              " and ", s + 1);
      }
      check(cost.pack_seconds(s, pass), "the constant of a ", name, " pack on stage ", s);
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        check(cost.slice_seconds(s, 0, lengths[i], pass), "sample ", i, " of ", lengths[i], " tokens, ", name,
              " on stage ", s);
      }
    }
  }
  if constexpr (RecomputingCostModel<M>) {
    for (std::size_t s = 0; s < stages; ++s) {
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        check(cost.recompute_seconds(s, 0, lengths[i]), "recomputing sample ", i, " of ", lengths[i],
              " tokens in a layer of stage ", s);
      }
    }
  }
}

/// @throws InvalidInput if what is always on a stage leaves no room for tokens.
template <MemoryModel M>
void require_room(const M& memory, std::size_t stages) {
  const double reserve = reserve_bytes(memory);
  for (std::size_t s = 0; s < stages; ++s) {
    require(memory.static_bytes(s) < memory.capacity_bytes(), "stage ", s, " needs ",
            (memory.static_bytes(s) - reserve) / 1e9, " GB for weights, gradients and optimiser, ",
            reserve > 0 ? concat("and ", reserve / 1e9, " GB are kept free (reserve_bytes), ") : "",
            "before any token; expected less than the ", memory.capacity_bytes() / 1e9,
            " GB of a device: more stages, tensor parallelism, sharding or memory",
            reserve > 0 ? ", or a smaller reserve" : "");
  }
}

}  // namespace slimpack
