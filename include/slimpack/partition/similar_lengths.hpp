#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace slimpack {

/// Ends of at most `parts` parts of a row of items, each part neighbouring items, such that the heaviest part is as light as
/// can be, to within rounding (FlexSP's micro-batches of samples sorted by length).
/// @param weights of the items in order, none negative. @param parts positive. @returns ends of parts with items.
/// O(items * 50).
[[nodiscard]] inline std::vector<std::size_t> lightest_parts(std::span<const double> weights,
                                                             std::size_t parts) {
  const auto cut = [&](double most) {
    std::vector<std::size_t> ends;
    double sum = 0.0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (i > 0 && sum + weights[i] > most) {
        ends.push_back(i);
        sum = 0.0;
      }
      sum += weights[i];
    }
    if (!weights.empty()) ends.push_back(weights.size());
    return ends;
  };
  double low = 0.0, high = 0.0;
  for (const double weight : weights) {
    low = std::max(low, weight);
    high += weight;
  }
  if (cut(low).size() <= parts) return cut(low);
  for (int halving = 0; halving < 50 && high - low > 1e-12 * high; ++halving) {
    const double middle = 0.5 * (low + high);
    (cut(middle).size() <= parts ? high : low) = middle;
  }
  return cut(high);
}

}  // namespace slimpack
