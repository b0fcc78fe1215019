#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/concepts.hpp"

namespace slimpack {

/// A cost model whose slices cost a polynomial of their bounds, so that budgets invert in closed form. The model
/// may say at run time that it does not apply (communication that is hidden only in part).
template <class M>
concept QuadraticCostModel = CostModel<M> && requires(const M& m, Pass pass) {
  { m.pipeline_coefficients(pass) } -> std::convertible_to<SliceCoefficients>;
  { m.is_quadratic() } -> std::convertible_to<bool>;
};

/// Seconds of a slice summed over all stages: the work that packs are balanced by. O(stages), O(1) for a model
/// that has a `pipeline_seconds` of its own.
template <CostModel M>
[[nodiscard]] double pipeline_seconds(const M& cost, Tokens begin, Tokens end, Pass pass) {
  if constexpr (requires { cost.pipeline_seconds(begin, end, pass); }) {
    return cost.pipeline_seconds(begin, end, pass);
  } else {
    double sum = 0.0;
    for (std::size_t s = 0; s < cost.stages(); ++s) sum += cost.slice_seconds(s, begin, end, pass);
    return sum;
  }
}

/// Real number of tokens x >= 0 such that `[begin, begin + x)` costs `budget`: the positive root of
/// `b x^2 + (a + b (2 begin + 1)) x = budget`, written so that it stays exact for b = 0.
[[nodiscard]] inline double tokens_after(const SliceCoefficients& c, Tokens begin, double budget) {
  const double q = c.per_token + c.per_twice_pair * (2.0 * static_cast<double>(begin) + 1.0);
  return 2.0 * budget / (q + std::sqrt(q * q + 4.0 * c.per_twice_pair * budget));
}

/// Real number of tokens x >= 0 such that `[end - x, end)` costs `budget`; `budget` at most the cost of `[0, end)`.
[[nodiscard]] inline double tokens_before(const SliceCoefficients& c, Tokens end, double budget) {
  const double q = c.per_token + c.per_twice_pair * (2.0 * static_cast<double>(end) + 1.0);
  const double root = std::sqrt(std::max(0.0, q * q - 4.0 * c.per_twice_pair * budget));
  return 2.0 * budget / (q + root);
}

/// Largest `end` in `[begin, limit]` whose slice `[begin, end)` costs at most `budget` over all stages; `begin` if
/// not even one token does. Closed form for a quadratic model, else bisection with O(log(limit - begin)) calls.
template <CostModel M>
[[nodiscard]] Tokens longest_slice(const M& cost, Tokens begin, Tokens limit, double budget, Pass pass) {
  const auto fits = [&](Tokens end) { return pipeline_seconds(cost, begin, end, pass) <= budget; };
  if (fits(limit)) return limit;
  if constexpr (QuadraticCostModel<M>) {
    if (cost.is_quadratic()) {
      const double x = tokens_after(cost.pipeline_coefficients(pass), begin, std::max(0.0, budget));
      Tokens end = std::clamp(begin + static_cast<Tokens>(x), begin, limit);
      while (end > begin && !fits(end)) --end;  // rounding of the root, one step at most
      while (end < limit && fits(end + 1)) ++end;
      return end;
    }
  }
  Tokens low = begin, high = limit;
  while (high - low > 1) {
    const Tokens middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

/// Smallest `begin` in `[limit, end]` whose slice `[begin, end)` costs at most `budget` over all stages; `end` if
/// not even one token does. The mirror of `longest_slice`, for backward packs, which take a sample from its end.
template <CostModel M>
[[nodiscard]] Tokens longest_slice_before(const M& cost, Tokens end, Tokens limit, double budget, Pass pass) {
  const auto fits = [&](Tokens begin) { return pipeline_seconds(cost, begin, end, pass) <= budget; };
  if (fits(limit)) return limit;
  if constexpr (QuadraticCostModel<M>) {
    if (cost.is_quadratic()) {
      const double x = tokens_before(cost.pipeline_coefficients(pass), end, std::max(0.0, budget));
      Tokens begin = std::clamp(end - static_cast<Tokens>(x), limit, end);
      while (begin < end && !fits(begin)) ++begin;
      while (begin > limit && fits(begin - 1)) --begin;
      return begin;
    }
  }
  Tokens low = limit, high = end;
  while (high - low > 1) {
    const Tokens middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace slimpack
