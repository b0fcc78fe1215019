#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace slimpack::detail {

/// What packs of equal cost share. Slices can cost more than their sample (communication that each slice
/// repeats), so that the total is known only after cutting, and what was expected wrongly is in the last
/// pack. Finds a total that leaves the last pack as large as the others; or, where costs jump so that there
/// is none, smaller.
/// @param whole cost of the samples uncut. @param guess the total to begin with. @param packs that share it. @param
/// accuracy how far the last pack may be off, as a share of a pack; grows where it can't be had.
/// @param left_after function that cuts for an expected total and returns what it leaves; negative if it was
/// too little. Called once where slices add up to their samples or the guess is good, else two or three times as a
/// rule.
/// @returns the total of the latest cut.
template <class LeftAfter>
[[nodiscard]] double expected_total(double whole, double guess, std::size_t packs, double accuracy,
                                    LeftAfter&& left_after) {
  struct Try {
    double expected, left;
  };
  constexpr double infinite = std::numeric_limits<double>::infinity();
  Try low{0.0, -whole}, high{infinite, infinite}, now{guess, left_after(guess)};
  const auto go_to = [&](double expected) { now = {expected, left_after(expected)}; };
  double tolerance = accuracy / static_cast<double>(packs);
  for (int round = 0; round < 5 && std::abs(now.left) > tolerance * now.expected; ++round, tolerance *= 1.5) {
    const double slope = (now.left - low.left) / (now.expected - low.expected);
    (now.left < 0.0 ? low : high) = now;
    if (high.expected == infinite) {
      // More slices mostly make the total grow, so the next guess may be bolder than what came out.
      const double bolder = round > 0 && slope > 0.0 ? now.expected - now.left / slope : 0.0;
      go_to(
          std::clamp(bolder, now.expected - now.left, std::max(4.0 * now.expected, now.expected - now.left)));
    } else if (round % 2 == 1) {
      go_to(low.expected + (high.expected - low.expected) * low.left / (low.left - high.left));
    } else {
      const double repeated = now.expected - now.left;
      const bool inside = low.expected < repeated && repeated < high.expected;
      go_to(inside ? repeated : (low.expected + high.expected) / 2.0);
    }
  }
  while (now.left < -tolerance * now.expected)
    go_to(high.expected < infinite ? high.expected : 2.0 * now.expected);
  return now.expected;
}

}  // namespace slimpack::detail
