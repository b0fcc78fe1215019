#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "slimpack/core/packs.hpp"

namespace slimpack {

/// How a pack came about (SlimPack, section 4 and Figure 4).
enum class Formation : std::uint8_t {
  slim,   ///< one slice of one longer sample
  mix,    ///< slices of longer samples together with other slices
  whole,  ///< complete samples only: the paper's "pack"
};

/// Formation of a pack; `lengths[sample]` is the length of each sample of the batch.
[[nodiscard]] inline Formation formation(std::span<const Slice> pack, std::span<const Tokens> lengths) {
  const bool all_whole = std::all_of(
      pack.begin(), pack.end(), [&](const Slice& slice) { return slice.size() == lengths[slice.sample]; });
  if (all_whole) return Formation::whole;
  return pack.size() == 1 ? Formation::slim : Formation::mix;
}

}  // namespace slimpack
