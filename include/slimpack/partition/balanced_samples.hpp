#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/partition/greedy.hpp"
#include "slimpack/partition/local_search.hpp"

namespace slimpack {

/// Deals samples to bins, as equal in work as LPT and exchanges make them.
/// @param work of each sample. @param bins positive.
/// @returns the samples of each bin, ascending; bins by falling work. Complexity: that of `improve_assignment`.
[[nodiscard]] inline std::vector<std::vector<SampleId>> balanced_samples(std::span<const double> work,
                                                                         std::size_t bins) {
  Assignment assignment = lpt(work, bins);
  improve_assignment(work, assignment);
  std::vector<std::uint32_t> order(bins), place(bins);
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return assignment.load[a] > assignment.load[b]; });
  for (std::uint32_t i = 0; i < bins; ++i) place[order[i]] = i;
  std::vector<std::vector<SampleId>> out(bins);
  for (std::size_t i = 0; i < work.size(); ++i)
    out[place[assignment.bin[i]]].push_back(static_cast<SampleId>(i));
  return out;
}

}  // namespace slimpack
