#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>

#include "slimpack/core/flops.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/cost/concepts.hpp"

namespace slimpack {

/// What the time of slices depends on, summed over slices: a pack is priced from these four numbers.
struct SliceSums {
  double slices = 0.0;
  double tokens = 0.0;
  double keys = 0.0;         ///< tokens of each slice's sample up to the slice's end
  double twice_pairs = 0.0;  ///< `twice_causal_pairs` of each slice

  /// Adds `[begin, end)`; nothing if it is empty.
  constexpr void add(Tokens begin, Tokens end) {
    if (begin == end) return;
    slices += 1.0;
    tokens += static_cast<double>(end - begin);
    keys += static_cast<double>(end);
    twice_pairs += twice_causal_pairs(begin, end);
  }
  friend bool operator==(const SliceSums&, const SliceSums&) = default;
};

/// Time of a slice `[begin, end)` as a polynomial: `per_slice + per_token (end - begin) + per_key end +
/// per_twice_pair twice_causal_pairs(begin, end)`. An empty slice takes no time. No coefficient is negative but for
/// `per_token`, which is at least `-per_twice_pair`: so time grows with the slice, and parts take no less than the whole.
struct SliceCoefficients {
  double per_slice = 0.0;
  double per_token = 0.0;
  double per_key = 0.0;
  double per_twice_pair = 0.0;

  [[nodiscard]] constexpr double seconds(Tokens begin, Tokens end) const {
    SliceSums sums;
    sums.add(begin, end);
    return seconds(sums);
  }
  /// Of several slices.
  [[nodiscard]] constexpr double seconds(const SliceSums& s) const {
    return per_slice * s.slices + per_token * s.tokens + per_key * s.keys + per_twice_pair * s.twice_pairs;
  }
  /// Whether parts of a sample take as long as the whole.
  [[nodiscard]] constexpr bool splits_for_free() const { return per_slice == 0.0 && per_key == 0.0; }

  constexpr SliceCoefficients& operator+=(const SliceCoefficients& other) {
    per_slice += other.per_slice;
    per_token += other.per_token;
    per_key += other.per_key;
    per_twice_pair += other.per_twice_pair;
    return *this;
  }
  friend constexpr SliceCoefficients operator+(SliceCoefficients a, const SliceCoefficients& b) {
    return a += b;
  }
  friend constexpr SliceCoefficients operator*(double factor, const SliceCoefficients& c) {
    return {factor * c.per_slice, factor * c.per_token, factor * c.per_key, factor * c.per_twice_pair};
  }
  friend bool operator==(const SliceCoefficients&, const SliceCoefficients&) = default;
};

/// So many seconds for each token of a slice's prefix, as coefficients: to be added to others that have as much
/// per token.
[[nodiscard]] constexpr SliceCoefficients per_prefix_key(double seconds) {
  return {.per_token = -seconds, .per_key = seconds};
}

/// A cost model whose slices cost a polynomial of their bounds, so that budgets invert in closed form and a
/// pack is priced from `SliceSums`. The model may say at run time that it does not apply (communication that
/// is hidden only in part).
///
/// - `coefficients(stage, pass)`: of `slice_seconds`.
/// - `recompute_coefficients(stage)`: of `recompute_seconds`, if the model has that.
/// - `is_polynomial()`: whether these are exact.
template <class M>
concept PolynomialCostModel = CostModel<M> && requires(const M& m, std::size_t stage, Pass pass) {
  { m.coefficients(stage, pass) } -> std::convertible_to<SliceCoefficients>;
  { m.is_polynomial() } -> std::convertible_to<bool>;
} &&(!RecomputingCostModel<M> || requires(const M& m, std::size_t stage) {
  { m.recompute_coefficients(stage) } -> std::convertible_to<SliceCoefficients>;
});

/// Real number of tokens x >= 0 such that `[begin, begin + x)` costs `budget`; 0 if an empty slice's
/// constants and keys cost more. It is the positive root of `p x^2 + (t + k + p (2 begin + 1)) x = budget - s - k
/// begin`, written so that it stays exact for p = 0.
[[nodiscard]] inline double tokens_after(const SliceCoefficients& c, Tokens begin, double budget) {
  const auto b = static_cast<double>(begin);
  const double left = budget - c.per_slice - c.per_key * b;
  if (left <= 0.0) return 0.0;
  const double q = c.per_token + c.per_key + c.per_twice_pair * (2.0 * b + 1.0);
  return 2.0 * left / (q + std::sqrt(q * q + 4.0 * c.per_twice_pair * left));
}

/// Real number of tokens x >= 0 such that `[end - x, end)` costs `budget`; 0 if an empty slice's constants and
/// keys cost more. `budget` at most the cost of `[0, end)`.
[[nodiscard]] inline double tokens_before(const SliceCoefficients& c, Tokens end, double budget) {
  const auto e = static_cast<double>(end);
  const double left = budget - c.per_slice - c.per_key * e;
  if (left <= 0.0) return 0.0;
  const double q = c.per_token + c.per_twice_pair * (2.0 * e + 1.0);
  const double root = std::sqrt(std::max(0.0, q * q - 4.0 * c.per_twice_pair * left));
  return 2.0 * left / (q + root);
}

}  // namespace slimpack
