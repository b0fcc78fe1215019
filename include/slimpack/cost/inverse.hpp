#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>

#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/quadratic.hpp"

namespace slimpack {

/// Seconds of a slice summed over all stages: the work that packs are balanced by. O(stages), O(1) for a
/// model that has a `pipeline_seconds` of its own.
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

namespace detail {

/// Largest n in [0, limit] with `seconds(n) <= budget`, for a function that does not fall; `limit_seconds` =
/// seconds(limit) > budget. Interpolates between the ends of the bracket, and halves it whenever
/// interpolation moves the same end twice. O(log limit) calls at worst, about five for smooth functions.
template <class Seconds>
[[nodiscard]] Tokens largest_within(Seconds&& seconds, Tokens limit, double limit_seconds, double budget) {
  Tokens low = 0, high = limit;
  double low_seconds = 0.0, high_seconds = limit_seconds;
  int same_side = 0;
  while (high - low > 1) {
    const double share = (budget - low_seconds) / (high_seconds - low_seconds);
    Tokens guess = low + static_cast<Tokens>(share * static_cast<double>(high - low));
    if (same_side > 1 || same_side < -1) guess = low + (high - low) / 2;
    guess = std::clamp(guess, low + 1, high - 1);
    const double guess_seconds = seconds(guess);
    if (guess_seconds <= budget) {
      low = guess;
      low_seconds = guess_seconds;
      same_side = std::max(0, same_side) + 1;
    } else {
      high = guess;
      high_seconds = guess_seconds;
      same_side = std::min(0, same_side) - 1;
    }
  }
  return low;
}

/// Largest n in [0, limit] near the real number `x` with `seconds(n) <= budget`: undoes the rounding of `x`.
template <class Seconds>
[[nodiscard]] Tokens settle(Seconds&& seconds, double x, Tokens limit, double budget) {
  Tokens n = std::clamp(static_cast<Tokens>(x), Tokens{0}, limit);
  while (n > 0 && seconds(n) > budget) --n;
  while (n < limit && seconds(n + 1) <= budget) ++n;
  return n;
}

}  // namespace detail

/// Largest `end` in `[begin, limit]` whose slice `[begin, end)` costs at most `budget` over all stages;
/// `begin` if not even one token does. Closed form for a quadratic model, else a bracketing search with
/// O(log(limit - begin)) calls of the model.
template <CostModel M>
[[nodiscard]] Tokens longest_slice(const M& cost, Tokens begin, Tokens limit, double budget, Pass pass) {
  if (budget < 0.0) return begin;
  const auto seconds = [&](Tokens n) { return pipeline_seconds(cost, begin, begin + n, pass); };
  const double whole = seconds(limit - begin);
  if (whole <= budget) return limit;
  if constexpr (QuadraticCostModel<M>) {
    if (cost.is_quadratic()) {
      const double x = tokens_after(cost.pipeline_coefficients(pass), begin, budget);
      return begin + detail::settle(seconds, x, limit - begin, budget);
    }
  }
  return begin + detail::largest_within(seconds, limit - begin, whole, budget);
}

/// Smallest `begin` in `[limit, end]` whose slice `[begin, end)` costs at most `budget` over all stages;
/// `end` if not even one token does. The mirror of `longest_slice`, for backward packs, which take a sample
/// from its end.
template <CostModel M>
[[nodiscard]] Tokens longest_slice_before(const M& cost, Tokens end, Tokens limit, double budget, Pass pass) {
  if (budget < 0.0) return end;
  const auto seconds = [&](Tokens n) { return pipeline_seconds(cost, end - n, end, pass); };
  const double whole = seconds(end - limit);
  if (whole <= budget) return limit;
  if constexpr (QuadraticCostModel<M>) {
    if (cost.is_quadratic()) {
      const double x = tokens_before(cost.pipeline_coefficients(pass), end, budget);
      return end - detail::settle(seconds, x, end - limit, budget);
    }
  }
  return end - detail::largest_within(seconds, end - limit, whole, budget);
}

}  // namespace slimpack
