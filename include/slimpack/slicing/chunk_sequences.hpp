#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/packs.hpp"
#include "slimpack/core/ragged.hpp"

namespace slimpack {

/// Chunks that run one after another because they hold slices of one sample. A chunk of whole samples is a sequence of
/// its own.
/// @param chunks at most one slice of each is of a sample that goes on in another chunk; those of a sample stand in
/// token order.
/// @param lengths of all samples.
/// @returns chunks of each sequence, in the order in which the forward pass runs them; sequences in the order of their
/// first chunks. O(slices).
[[nodiscard]] inline Ragged<PackId> chunk_sequences(const Packs& chunks, std::span<const Tokens> lengths) {
  constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);
  std::vector<std::uint32_t> sequence_of(lengths.size(), none);
  std::vector<std::vector<PackId>> sequences;
  for (PackId k = 0; k < chunks.size(); ++k) {
    const auto cut = std::find_if(chunks[k].begin(), chunks[k].end(),
                                  [&](const Slice& slice) { return slice.size() < lengths[slice.sample]; });
    if (cut == chunks[k].end()) {
      sequences.push_back({k});
      continue;
    }
    std::uint32_t& own = sequence_of[cut->sample];
    if (own == none) {
      own = static_cast<std::uint32_t>(sequences.size());
      sequences.emplace_back();
    }
    sequences[own].push_back(k);
  }
  Ragged<PackId> out;
  for (const std::vector<PackId>& sequence : sequences) {
    for (const PackId k : sequence) out.add(k);
    out.close();
  }
  return out;
}

}  // namespace slimpack
