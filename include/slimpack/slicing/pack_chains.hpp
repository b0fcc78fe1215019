#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/core/packs.hpp"

// A chain is a run of forward packs, one after another, of which each shares a sample that is cut with the next. Packs of
// different chains share no sample.
namespace slimpack {

/// End of the chain that begins at pack `begin`. @param lengths of all samples. O(slices of the chain).
[[nodiscard]] inline std::size_t chain_end(std::span<const Tokens> lengths, const Packs& packs,
                                           std::size_t begin) {
  std::ptrdiff_t unfinished = 0;  // samples with slices on both sides of the current boundary
  std::size_t end = begin;
  do {
    for (const Slice& slice : packs[end]) {
      const bool starts = slice.begin == 0, ends = slice.end == lengths[slice.sample];
      unfinished += static_cast<std::ptrdiff_t>(starts) - static_cast<std::ptrdiff_t>(ends);
    }
    ++end;
  } while (unfinished > 0);
  return end;
}

/// Appends the packs `[first, last)` in the order in which they can run backward: each chain in reverse, chains as they stand.
/// O(slices).
inline void append_mirrored(std::span<const Tokens> lengths, const Packs& packs, std::size_t first,
                            std::size_t last, Packs& out) {
  for (std::size_t begin = first, end = first; begin < last; begin = end) {
    end = chain_end(lengths, packs, begin);
    for (std::size_t k = end; k-- > begin;) out.repeat_row(1, packs[k]);
  }
}

/// Puts the chains from pack `first` on into reverse order; the packs of a chain keep theirs. O(slices).
inline void reverse_chains(std::span<const Tokens> lengths, std::size_t first, Packs& packs) {
  std::vector<std::size_t> begins;
  for (std::size_t begin = first; begin < packs.size(); begin = chain_end(lengths, packs, begin))
    begins.push_back(begin);
  Packs reversed;
  for (std::size_t i = begins.size(); i-- > 0;) {
    const std::size_t end = i + 1 < begins.size() ? begins[i + 1] : packs.size();
    for (std::size_t k = begins[i]; k < end; ++k) reversed.repeat_row(1, packs[k]);
  }
  packs.truncate(first);
  packs.append(reversed);
}

}  // namespace slimpack
