#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <vector>

#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/features.hpp"

namespace slimpack {

namespace detail {

/// Arguments of memory models' members, for checks that name a single one.
struct MemoryArguments {
  std::size_t stage = 0;
  Pass pass = Pass::forward;
  Tokens tokens = 0;
  int layers = 0;
  std::size_t members = 1;
};

/// Fails to compile where a type lacks one of the members that every memory model has.
template <class M>
constexpr void require_memory_model() {
  static_assert(
      requires(const M& m) {
        { m.capacity_bytes() } -> std::convertible_to<double>;
      },
      "a memory model needs: double capacity_bytes() const");
  static_assert(
      requires(const M& m, MemoryArguments a) {
        { m.static_bytes(a.stage) } -> std::convertible_to<double>;
      },
      "a memory model needs: double static_bytes(std::size_t stage) const");
  static_assert(
      requires(const M& m, MemoryArguments a) {
        { m.activation_bytes(a.stage, a.layers) } -> std::convertible_to<double>;
      },
      "a memory model needs: double activation_bytes(std::size_t stage, int recompute_layers) const");
  static_assert(
      requires(const M& m, MemoryArguments a) {
        { m.kv_gradient_bytes(a.stage) } -> std::convertible_to<double>;
      },
      "a memory model needs: double kv_gradient_bytes(std::size_t stage) const");
  static_assert(
      requires(const M& m, MemoryArguments a) {
        { m.workspace_bytes(a.stage, a.pass, a.tokens, a.layers) } -> std::convertible_to<double>;
      },
      "a memory model needs: double workspace_bytes(std::size_t stage, Pass, Tokens tokens, int "
      "recompute_layers) const");
}

}  // namespace detail

/// Optional capabilities of memory models, to be named in `require_memory_features` and `missing_memory_features`. Each has
/// `has`, `require` and `without`, as those of cost models do (`cost/features.hpp`). This one: what members of a pack hold to
/// exchange keys.
struct ExchangingMemory {
  template <class M>
  static constexpr bool has = ExchangingMemoryModel<M>;
  template <class M>
  static constexpr void require() {
    static_assert(has<M>,
                  "ExchangingMemory needs: double exchange_bytes(std::size_t stage, Pass, Tokens tokens, "
                  "std::size_t members, KeyExchange) const; the last parameter may be left out");
  }
  static constexpr const char* without =
      "the memory model does not say what pipelines that share a pack hold to exchange keys "
      "(exchange_bytes): it is counted as nothing";
};

/// Layers that wait in the host's memory.
struct OffloadingMemory {
  template <class M>
  static constexpr bool has = OffloadingMemoryModel<M>;
  template <class M>
  static constexpr void require() {
    static_assert(
        requires(const M& m, detail::MemoryArguments a) {
          { m.activation_bytes(a.stage, a.layers, a.layers) } -> std::convertible_to<double>;
        },
        "OffloadingMemory needs: double activation_bytes(std::size_t stage, int recompute_layers, int "
        "offload_layers) const");
    static_assert(
        requires(const M& m, detail::MemoryArguments a) {
          { m.host_bytes(a.stage, a.layers, a.layers) } -> std::convertible_to<double>;
        },
        "OffloadingMemory needs: double host_bytes(std::size_t stage, int recompute_layers, int "
        "offload_layers) const");
    static_assert(
        requires(const M& m, detail::MemoryArguments a) {
          { m.transit_bytes(a.stage, a.tokens) } -> std::convertible_to<double>;
        },
        "OffloadingMemory needs: double transit_bytes(std::size_t stage, Tokens tokens) const");
  }
  static constexpr const char* without =
      "the memory model does not know the host's memory (host_bytes, transit_bytes, activation_bytes with "
      "offloaded layers): offloaded layers take as much of the device's memory as others";
};

/// Memory that is kept free for what the model does not know.
struct ReservingMemory {
  template <class M>
  static constexpr bool has = requires(const M& m) {
    { m.reserve_bytes() } -> std::convertible_to<double>;
  };
  template <class M>
  static constexpr void require() {
    static_assert(has<M>, "ReservingMemory needs: double reserve_bytes() const");
  }
  static constexpr const char* without =
      "the memory model does not say how much of its static bytes is kept free (reserve_bytes): messages do "
      "not name it";
};

/// Checks at compile time that a model is a memory model and has these capabilities, so that a misspelt member is an error:
///
///     slimpack::require_memory_features<slimpack::ExchangingMemory>(memory);
template <class... Features, class M>
constexpr void require_memory_features(const M&) {
  detail::require_memory_model<M>();
  (Features::template require<M>(), ...);
}

/// What a plan goes without because the memory model lacks a capability, a sentence each; empty if it has them all.
/// @tparam Features those of interest; by default those that change plans: ExchangingMemory and OffloadingMemory.
template <class... Features, MemoryModel M>
[[nodiscard]] std::vector<std::string> missing_memory_features(const M& memory) {
  if constexpr (sizeof...(Features) > 0) {
    return detail::notes_without<M, Features...>();
  } else {
    return missing_memory_features<ExchangingMemory, OffloadingMemory>(memory);
  }
}

}  // namespace slimpack
