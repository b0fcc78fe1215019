#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>

#include "slimpack/core/flops.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/cost/concepts.hpp"

namespace slimpack {

/// Time of a slice as a polynomial: `per_token (end - begin) + per_twice_pair * twice_causal_pairs(begin,
/// end)`.
struct SliceCoefficients {
  double per_token = 0.0;
  double per_twice_pair = 0.0;

  [[nodiscard]] constexpr double seconds(Tokens begin, Tokens end) const {
    return seconds_of_sums(end - begin, twice_causal_pairs(begin, end));
  }
  /// Of slices with so many tokens and pairs together.
  [[nodiscard]] constexpr double seconds_of_sums(Tokens tokens, double twice_pairs) const {
    return per_token * static_cast<double>(tokens) + per_twice_pair * twice_pairs;
  }
  constexpr SliceCoefficients& operator+=(const SliceCoefficients& other) {
    per_token += other.per_token;
    per_twice_pair += other.per_twice_pair;
    return *this;
  }
};

/// A cost model whose slices cost a polynomial of their bounds, so that budgets invert in closed form. The
/// model may say at run time that it does not apply (communication that is hidden only in part).
template <class M>
concept QuadraticCostModel = CostModel<M> && requires(const M& m, Pass pass) {
  { m.pipeline_coefficients(pass) } -> std::convertible_to<SliceCoefficients>;
  { m.is_quadratic() } -> std::convertible_to<bool>;
};

/// Real number of tokens x >= 0 such that `[begin, begin + x)` costs `budget`: the positive root of
/// `b x^2 + (a + b (2 begin + 1)) x = budget`, written so that it stays exact for b = 0.
[[nodiscard]] inline double tokens_after(const SliceCoefficients& c, Tokens begin, double budget) {
  const double q = c.per_token + c.per_twice_pair * (2.0 * static_cast<double>(begin) + 1.0);
  return 2.0 * budget / (q + std::sqrt(q * q + 4.0 * c.per_twice_pair * budget));
}

/// Real number of tokens x >= 0 such that `[end - x, end)` costs `budget`; `budget` at most the cost of `[0,
/// end)`.
[[nodiscard]] inline double tokens_before(const SliceCoefficients& c, Tokens end, double budget) {
  const double q = c.per_token + c.per_twice_pair * (2.0 * static_cast<double>(end) + 1.0);
  const double root = std::sqrt(std::max(0.0, q * q - 4.0 * c.per_twice_pair * budget));
  return 2.0 * budget / (q + root);
}

}  // namespace slimpack
