#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/partition/packing.hpp"

namespace slimpack::detail {

/// Samples by falling length, equal ones in their order. Complexity: that of `falling_order`.
[[nodiscard]] inline std::vector<SampleId> longest_first(std::span<const Tokens> lengths) {
  return lengths.empty() ? std::vector<SampleId>{}
                         : falling_order(lengths, *std::max_element(lengths.begin(), lengths.end()));
}

}  // namespace slimpack::detail
