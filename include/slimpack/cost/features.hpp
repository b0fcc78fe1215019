#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/exchange.hpp"
#include "slimpack/cost/polynomial.hpp"

namespace slimpack {

namespace detail {

/// Arguments of cost models' members, for checks that name a single one.
struct Arguments {
  std::size_t stage = 0;
  Tokens tokens = 0;
  Pass pass = Pass::forward;
  std::int32_t group = 1;
  double seconds = 0.0;
};

/// Fails to compile where a type lacks one of the members that every cost model has.
template <class M>
constexpr void require_cost_model() {
  static_assert(
      requires(const M& m, Arguments a) {
        { m.stages() } -> std::convertible_to<std::size_t>;
      },
      "a cost model needs: std::size_t stages() const");
  static_assert(
      requires(const M& m, Arguments a) {
        { m.slice_seconds(a.stage, a.tokens, a.tokens, a.pass) } -> std::convertible_to<double>;
      },
      "a cost model needs: double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass) const");
  static_assert(
      requires(const M& m, Arguments a) {
        { m.pack_seconds(a.stage, a.pass) } -> std::convertible_to<double>;
      },
      "a cost model needs: double pack_seconds(std::size_t stage, Pass) const");
  static_assert(
      requires(const M& m, Arguments a) {
        { m.transfer_seconds(a.stage, a.tokens, a.pass) } -> std::convertible_to<double>;
      },
      "a cost model needs: double transfer_seconds(std::size_t stage, Tokens tokens, Pass) const");
}

}  // namespace detail

/// Optional capabilities of cost models, to be named in `require_features` and `missing_features`. Each has
/// - `has<M>`: whether a model has it;
/// - `require<M>()`: fails to compile, with the member that is missing or misspelt, unless it has;
/// - `without`: what a plan does without it.
struct Mergeable {
  template <class M>
  static constexpr bool has = MergeableCostModel<M>;
  template <class M>
  static constexpr void require() {
    static_assert(
        requires(const M& m, detail::Arguments a) {
          { m.supports_context_parallel(a.group) } -> std::convertible_to<bool>;
        },
        "Mergeable needs: bool supports_context_parallel(std::int32_t group) const");
    static_assert(
        requires(const M& m, detail::Arguments a) {
          { m.with_context_parallel(a.group) } -> std::convertible_to<M>;
        },
        "Mergeable needs: with_context_parallel(std::int32_t group) const, which returns the model's own "
        "type");
  }
  static constexpr const char* without =
      "the cost model does not price packs that several pipelines run together (supports_context_parallel, "
      "with_context_parallel): no sample is merged";
};

/// Layers recomputed in the backward pass.
struct Recomputing {
  template <class M>
  static constexpr bool has = RecomputingCostModel<M>;
  template <class M>
  static constexpr void require() {
    static_assert(
        requires(const M& m, detail::Arguments a) {
          { m.recompute_seconds(a.stage, a.tokens, a.tokens) } -> std::convertible_to<double>;
        },
        "Recomputing needs: double recompute_seconds(std::size_t stage, Tokens begin, Tokens end) const");
  }
  static constexpr const char* without =
      "the cost model does not price layers that are recomputed (recompute_seconds): nothing is "
      "recomputed";
};

/// Layers that wait in the host's memory.
struct Offloading {
  template <class M>
  static constexpr bool has = OffloadingCostModel<M>;
  template <class M>
  static constexpr void require() {
    static_assert(
        requires(const M& m, detail::Arguments a) {
          { m.offload_seconds(a.stage, a.tokens, a.pass) } -> std::convertible_to<double>;
        },
        "Offloading needs: double offload_seconds(std::size_t stage, Tokens tokens, Pass) const");
  }
  static constexpr const char* without =
      "the cost model does not price layers in the host's memory (offload_seconds): nothing is offloaded";
};

/// Layers of the stages, to be checked against a plan's.
struct Layered {
  template <class M>
  static constexpr bool has = LayeredCostModel<M>;
  template <class M>
  static constexpr void require() {
    static_assert(
        requires(const M& m) {
          { m.layers() } -> std::convertible_to<std::span<const std::int32_t>>;
        },
        "Layered needs: layers() const, which returns a list of std::int32_t, one for each stage");
  }
  static constexpr const char* without =
      "the cost model does not say how many layers its stages hold (layers): they are not checked against "
      "the plan's";
};

/// Attention apart from the rest.
struct Separable {
  template <class M>
  static constexpr bool has = SeparableCostModel<M>;
  template <class M>
  static constexpr void require() {
    static_assert(
        requires(const M& m, detail::Arguments a) {
          { m.other_seconds(a.stage, a.tokens, a.tokens, a.pass) } -> std::convertible_to<double>;
        },
        "Separable needs: double other_seconds(std::size_t stage, Tokens begin, Tokens end, Pass) const");
    static_assert(
        requires(const M& m, detail::Arguments a) {
          { m.attention_seconds(a.stage, a.pass, a.seconds) } -> std::convertible_to<double>;
        },
        "Separable needs: double attention_seconds(std::size_t stage, Pass, double layer) const");
    static_assert(
        !RecomputingCostModel<M> ||
            requires(const M& m, detail::Arguments a) {
              { m.recompute_other_seconds(a.stage, a.tokens, a.tokens) } -> std::convertible_to<double>;
            },
        "Separable needs, of a model that recomputes: double recompute_other_seconds(std::size_t stage, "
        "Tokens begin, "
        "Tokens end) const");
  }
  static constexpr const char* without =
      "the cost model can't tell attention from the rest (other_seconds, attention_seconds): "
      "context-parallel ranks are assumed to share attention equally";
};

/// Ways to exchange the keys of packs that several ranks share.
struct Exchanging {
  template <class M>
  static constexpr bool has = ExchangingCostModel<M>;
  template <class M>
  static constexpr void require() {
    static_assert(
        requires(const M& m) {
          { m.exchanges() } -> std::convertible_to<ExchangeSet>;
        },
        "Exchanging needs: ExchangeSet exchanges() const");
    static_assert(
        requires(const M& m, KeyExchange exchange) {
          { m.with_exchange(exchange) } -> std::convertible_to<M>;
        },
        "Exchanging needs: with_exchange(KeyExchange) const, which returns the model's own type");
  }
  static constexpr const char* without =
      "the cost model does not tell ways to exchange keys apart (exchanges, with_exchange): plans name none";
};

/// Gradient synchronisation.
struct Synchronised {
  template <class M>
  static constexpr bool has = requires(const M& m) {
    { m.sync_seconds() } -> std::convertible_to<double>;
  };
  template <class M>
  static constexpr void require() {
    static_assert(has<M>, "Synchronised needs: double sync_seconds() const");
  }
  static constexpr const char* without =
      "the cost model does not price the synchronisation of gradients (sync_seconds): it takes no time";
};

/// Times as polynomials. Without them plans are the same, but made more slowly.
struct Polynomial {
  template <class M>
  static constexpr bool has = PolynomialCostModel<M>;
  template <class M>
  static constexpr void require() {
    static_assert(
        requires(const M& m, detail::Arguments a) {
          { m.coefficients(a.stage, a.pass) } -> std::convertible_to<SliceCoefficients>;
        },
        "Polynomial needs: SliceCoefficients coefficients(std::size_t stage, Pass) const");
    static_assert(
        requires(const M& m) {
          { m.is_polynomial() } -> std::convertible_to<bool>;
        },
        "Polynomial needs: bool is_polynomial() const");
    static_assert(
        !RecomputingCostModel<M> ||
            requires(const M& m, detail::Arguments a) {
              { m.recompute_coefficients(a.stage) } -> std::convertible_to<SliceCoefficients>;
            },
        "Polynomial needs, of a model that recomputes: SliceCoefficients recompute_coefficients(std::size_t "
        "stage) const");
  }
  static constexpr const char* without =
      "the cost model has no coefficients (coefficients, is_polynomial): planning asks it for each slice";
};

/// Checks at compile time that a model is a cost model and has these capabilities, so that a misspelt member
/// (`with_context_parallell`) is an error with a text, rather than a capability that is silently not used:
///
///     slimpack::require_features<slimpack::Mergeable, slimpack::Recomputing>(cost);
template <class... Features, class M>
constexpr void require_features(const M&) {
  detail::require_cost_model<M>();
  (Features::template require<M>(), ...);
}

namespace detail {

/// A sentence for each capability that a model lacks.
template <class M, class... Features>
[[nodiscard]] std::vector<std::string> notes_without() {
  std::vector<std::string> notes;
  const auto add = [&](bool has, const char* without) {
    if (!has) notes.emplace_back(without);
  };
  (add(Features::template has<M>, Features::without), ...);
  return notes;
}

}  // namespace detail

/// What a plan goes without because the model lacks a capability, a sentence each; empty if it has them all.
/// @tparam Features those of interest; by default those that change plans: Mergeable, Exchanging (of a model that merges),
/// Recomputing, Offloading, Layered and Synchronised.
template <class... Features, CostModel M>
[[nodiscard]] std::vector<std::string> missing_features(const M& cost) {
  if constexpr (sizeof...(Features) > 0) {
    return detail::notes_without<M, Features...>();
  } else if constexpr (Mergeable::has<M>) {
    return missing_features<Exchanging, Recomputing, Offloading, Layered, Synchronised>(cost);
  } else {
    return missing_features<Mergeable, Recomputing, Offloading, Layered, Synchronised>(cost);
  }
}

}  // namespace slimpack
