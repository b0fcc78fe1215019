#pragma once

#include <algorithm>
#include <span>

#include "slimpack/core/ids.hpp"
#include "slimpack/cost/prices.hpp"

namespace slimpack {

/// Seconds that cutting a sample in two adds to it, as a mean over samples: each is cut far inside, and counts in proportion
/// to its seconds, as cuts into packs of equal cost hit it.
/// @param seconds function of a slice's begin and end. O(samples) calls.
template <class Seconds>
[[nodiscard]] double mean_cut_seconds(std::span<const Tokens> lengths, const Seconds& seconds) {
  double sum = 0.0, all = 0.0;
  for (const Tokens length : lengths) {
    const Tokens cut = length - length * 2 / 5;
    const double whole = seconds(0, length);
    all += whole;
    if (cut < length) sum += whole * (seconds(0, cut) + seconds(cut, length) - whole);
  }
  return all > 0.0 ? std::max(0.0, sum / all) : 0.0;
}

/// Seconds that one more cut costs a stage of a pipeline on average, in both passes. @param alone prices of a pipeline that shares
/// no packs. O(samples) prices.
[[nodiscard]] inline double stage_cut_seconds(std::span<const Tokens> lengths, const Prices& alone) {
  const auto both_passes = [&](Tokens begin, Tokens end) {
    return alone.pipeline_seconds(begin, end, Pass::forward) +
           alone.pipeline_seconds(begin, end, Pass::backward);
  };
  return mean_cut_seconds(lengths, both_passes) / static_cast<double>(alone.stages());
}

}  // namespace slimpack
