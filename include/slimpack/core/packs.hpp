#pragma once

#include <span>

#include "slimpack/core/ids.hpp"
#include "slimpack/core/ragged.hpp"

namespace slimpack {

/// Tokens `[begin, end)` of one sample.
struct Slice {
  SampleId sample = 0;
  Tokens begin = 0;
  Tokens end = 0;

  [[nodiscard]] constexpr Tokens size() const { return end - begin; }
  friend bool operator==(const Slice&, const Slice&) = default;
};

/// A list of packs: one row of slices for each.
class Packs : public Ragged<Slice> {
 public:
  /// Slices of all packs, in pack order.
  [[nodiscard]] std::span<const Slice> slices() const { return values(); }

  friend bool operator==(const Packs&, const Packs&) = default;
};

/// Tokens of a pack.
[[nodiscard]] inline Tokens count_tokens(std::span<const Slice> pack) {
  Tokens sum = 0;
  for (const Slice& slice : pack) sum += slice.size();
  return sum;
}

}  // namespace slimpack
