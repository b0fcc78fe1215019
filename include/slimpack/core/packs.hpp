#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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
[[nodiscard]] constexpr Tokens count_tokens(std::span<const Slice> pack) {
  Tokens sum = 0;
  for (const Slice& slice : pack) sum += slice.size();
  return sum;
}

/// The packs of each bin, in their order. @param bin [pack] of each pack, below `bins`. O(slices + bins).
[[nodiscard]] inline std::vector<Packs> packs_by_bin(const Packs& packs, std::span<const std::uint32_t> bin,
                                                     std::size_t bins) {
  std::vector<Packs> out(bins);
  for (std::size_t k = 0; k < packs.size(); ++k) out[bin[k]].repeat_row(1, packs[k]);
  return out;
}

}  // namespace slimpack
