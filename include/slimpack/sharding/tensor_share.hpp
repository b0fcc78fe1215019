#pragma once

#include <cstddef>

#include "slimpack/core/packs.hpp"

namespace slimpack {

/// Which of the tensor-parallel ranks of a stage one is. Between the products that they share, each holds the residual stream
/// of some tokens (sequence parallelism; Korthikanti et al., "Reducing activation recomputation"): tokens of a sample go round.
/// The owner depends on the token alone, so a token's rows stay on one rank however either pass is sliced.
struct TensorShare {
  std::size_t size = 1;  ///< ranks of the stage
  std::size_t rank = 0;  ///< this one, below `size`

  /// The rank that holds a token's rows. Samples begin at different ranks, so that short ones fill all equally.
  [[nodiscard]] constexpr std::size_t owner(SampleId sample, Tokens token) const {
    return (static_cast<std::size_t>(token) + sample) % size;
  }

  /// Tokens of a range whose rows this rank holds. O(1).
  [[nodiscard]] constexpr Tokens count(const Slice& range) const {
    const auto below = [&](Tokens end) {
      // Places from the sample's first owner on, of which this rank has each `size`-th.
      const std::size_t first = range.sample % size, offset = (rank + size - first) % size;
      return static_cast<Tokens>((static_cast<std::size_t>(end) + size - 1 - offset) / size);
    };
    return below(range.end) - below(range.begin);
  }

  friend bool operator==(const TensorShare&, const TensorShare&) = default;
};

}  // namespace slimpack
