#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>

#include "slimpack/core/packs.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/sharding/kind.hpp"

namespace slimpack {

/// The ways to exchange keys that this library prices.
inline constexpr std::array key_exchanges{KeyExchange::ring, KeyExchange::all_to_all,
                                          KeyExchange::all_gather};

/// Some of the ways to exchange: those that a back end offers, for instance.
class ExchangeSet {
 public:
  constexpr ExchangeSet() = default;
  constexpr ExchangeSet(std::initializer_list<KeyExchange> exchanges) {
    for (const KeyExchange e : exchanges) add(e);
  }
  constexpr void add(KeyExchange e) { bits_ = static_cast<std::uint8_t>(bits_ | bit(e)); }
  [[nodiscard]] constexpr bool contains(KeyExchange e) const { return (bits_ & bit(e)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr std::size_t size() const {
    std::size_t n = 0;
    for (const KeyExchange e : key_exchanges) n += contains(e) ? 1 : 0;
    return n;
  }
  friend constexpr bool operator==(ExchangeSet, ExchangeSet) = default;

 private:
  [[nodiscard]] static constexpr unsigned bit(KeyExchange e) { return 1U << static_cast<unsigned>(e); }
  std::uint8_t bits_ = 0;
};

/// As messages name it: `ring or all_to_all`.
[[nodiscard]] inline std::string exchange_names(ExchangeSet set) {
  std::string names;
  for (const KeyExchange e : key_exchanges) {
    if (!set.contains(e)) continue;
    if (!names.empty()) names += " or ";
    names += exchange_name(e);
  }
  return names.empty() ? "none" : names;
}

/// A cost model that prices several ways to exchange. A slice of it takes the cheapest of them.
///
/// - `exchanges()`: those that its group of ranks can use; a model of packs that nobody shares may list any.
/// - `with_exchange(exchange)`: the same model with this way alone. @pre `exchanges()` contains it.
template <class M>
concept ExchangingCostModel = CostModel<M> && requires(const M& m, KeyExchange exchange) {
  { m.exchanges() } -> std::convertible_to<ExchangeSet>;
  { m.with_exchange(exchange) } -> std::convertible_to<M>;
};

/// The way to exchange in which a pack takes least time on all stages together; of equals, the first of
/// `key_exchanges`. A pack is exchanged in one way, so that its price is the sum over its slices of
/// `with_exchange(exchange_of(...))`: not less than the sum of `slice_seconds` over all ways.
/// O(slices * stages * exchanges).
template <ExchangingCostModel M>
[[nodiscard]] KeyExchange exchange_of(const M& cost, std::span<const Slice> pack, Pass pass) {
  KeyExchange best{};
  double least = std::numeric_limits<double>::infinity();
  for (const KeyExchange e : key_exchanges) {
    if (!cost.exchanges().contains(e)) continue;
    const M one = cost.with_exchange(e);
    double seconds = 0.0;
    for (std::size_t s = 0; s < one.stages(); ++s) {
      for (const Slice& slice : pack) seconds += one.slice_seconds(s, slice.begin, slice.end, pass);
    }
    if (seconds < least) {
      least = seconds;
      best = e;
    }
  }
  return best;
}

}  // namespace slimpack
