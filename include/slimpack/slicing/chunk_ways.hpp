#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>

#include "slimpack/slicing/chunks.hpp"
#include "slimpack/slicing/equal_slices.hpp"

namespace slimpack {

/// The limits of workload-balanced chunking: the longest sample's slices of equal time.
/// @param slices of the longest sample. @param prices of the backward pass. @throws InvalidInput as `equal_slices`.
/// @pre samples is not empty. Complexity: that of `equal_slices`, and O(samples).
[[nodiscard]] inline ChunkLimits balanced_limits(std::span<const Tokens> lengths,
                                                 std::span<const SampleId> samples, const SlicePrices& prices,
                                                 std::size_t slices, Tokens tile = 1) {
  Tokens longest = 0;
  for (const SampleId id : samples) longest = std::max(longest, lengths[id]);
  EqualSlices mesh = equal_slices(prices, longest, slices, tile);
  const Tokens most = *std::max_element(mesh.sizes.begin(), mesh.sizes.end());
  return {.mesh = std::move(mesh.sizes), .seconds = mesh.most, .tokens = most};
}

/// Workload-balanced chunking (InfiniPipe, Algorithm 1): the longest sample's slices of equal time are the mesh for all longer
/// samples, and limit time and tokens of what is packed. Where only time has no room for a sample, its limit rises by as much as
/// that sample needs. Parameters as `balanced_limits` and `pack_chunks`. Complexity: that of `pack_chunks`.
[[nodiscard]] inline Chunks balanced_chunks(std::span<const Tokens> lengths,
                                            std::span<const SampleId> samples, const SlicePrices& prices,
                                            std::size_t slices, Tokens tile = 1) {
  return pack_chunks(lengths, samples, prices, balanced_limits(lengths, samples, prices, slices, tile),
                     ChunkChoice::lightest);
}

/// The same mesh, and time divided equally over as many chunks as the limits need, which the paper's algorithm does not.
/// @param limits as `balanced_limits` gives them. @param limit_tokens whether chunks keep that of tokens.
/// Other parameters as `pack_chunks`. Complexity: the same.
[[nodiscard]] inline Chunks level_chunks(std::span<const Tokens> lengths, std::span<const SampleId> samples,
                                         const SlicePrices& prices, ChunkLimits limits, bool limit_tokens) {
  if (!limit_tokens) limits.tokens = std::numeric_limits<Tokens>::max() / 2;
  return pack_chunks(lengths, samples, prices, limits, ChunkChoice::shortest);
}

/// The fewest tokens, a multiple of `tile`, such that `slices` slices of so many hold a sample of `length` tokens.
/// @pre slices and tile are positive. O(1).
[[nodiscard]] inline Tokens even_slice(Tokens length, std::size_t slices, Tokens tile) {
  const auto n = static_cast<Tokens>(slices);
  return ((length + n - 1) / n + tile - 1) / tile * tile;
}

/// Chunks of up to `tokens` tokens, whatever time they take: what InfiniPipe compares with (section 5.5, `w/o wbc`), and its
/// enhanced Seq1F1B (section 5.1). Complexity: that of `pack_chunks`.
[[nodiscard]] inline Chunks even_chunks(std::span<const Tokens> lengths, std::span<const SampleId> samples,
                                        const SlicePrices& prices, Tokens tokens) {
  return pack_chunks(lengths, samples, prices, {.mesh = {tokens}, .tokens = tokens}, ChunkChoice::fullest);
}

/// Each sample alone, in as many slices of equal time as the others (Seq1F1B, as published), or as it has tiles.
/// @param prices of the backward pass. @throws InvalidInput as `equal_slices`. Complexity: that of `equal_slices` for each sample.
[[nodiscard]] inline Chunks lone_chunks(std::span<const Tokens> lengths, std::span<const SampleId> samples,
                                        const SlicePrices& prices, std::size_t slices, Tokens tile = 1) {
  Chunks out;
  for (const SampleId id : samples) {
    const auto tiles = static_cast<std::size_t>((lengths[id] - 1) / tile + 1);
    Tokens begin = 0;
    for (const Tokens size : equal_slices(prices, lengths[id], std::min(slices, tiles), tile).sizes) {
      out.packs.add({id, begin, begin + size});
      out.packs.close();
      out.kinds.push_back(size < lengths[id] ? ChunkKind::split : ChunkKind::batched);
      begin += size;
    }
  }
  return out;
}

}  // namespace slimpack
