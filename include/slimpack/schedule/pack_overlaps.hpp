#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/slicing/pack_rows.hpp"

namespace slimpack {

/// Tokens that are in one forward and one backward pack. They are held from the one to the other.
struct PackOverlap {
  std::uint32_t forward_row;
  std::uint32_t backward_row;
  PackId backward_pack;
  double tokens;  ///< on each pipeline that runs the backward pack
};

namespace detail {

struct SamplePiece {
  SampleId sample;
  Tokens begin, end;
  std::uint32_t row;
  PackId pack;
};

/// Pieces of all samples, sample by sample in token order. O(slices log slices).
[[nodiscard]] inline std::vector<SamplePiece> sample_pieces(const PackRows& rows) {
  std::vector<SamplePiece> out;
  for (std::size_t r = 0; r < rows.rows.size(); ++r) {
    for (const PackId pack : rows.rows[r]) {
      for (const Slice& slice : rows.packs[pack])
        out.push_back({slice.sample, slice.begin, slice.end, static_cast<std::uint32_t>(r), pack});
    }
  }
  std::sort(out.begin(), out.end(), [](const SamplePiece& a, const SamplePiece& b) {
    return std::pair(a.sample, a.begin) < std::pair(b.sample, b.begin);
  });
  return out;
}

}  // namespace detail

/// What forward and backward packs have in common, [pipeline], by rows of the forward pass. O(slices log slices).
/// @pre both passes have the same tokens of each sample.
[[nodiscard]] inline std::vector<std::vector<PackOverlap>> pack_overlaps(const PackRows& forward,
                                                                         const PackRows& backward,
                                                                         std::size_t pipelines) {
  std::vector<std::vector<PackOverlap>> out(pipelines);
  const std::vector<detail::SamplePiece> before = detail::sample_pieces(forward),
                                         after = detail::sample_pieces(backward);
  for (std::size_t f = 0, b = 0; f < before.size() && b < after.size();) {
    const detail::SamplePiece &from = before[f], &to = after[b];
    const Tokens common = std::min(from.end, to.end) - std::max(from.begin, to.begin);
    const double tokens = static_cast<double>(common) / static_cast<double>(backward.sharers[to.pack]);
    for (const std::uint32_t p : backward.members[to.pack])
      out[p].push_back({from.row, to.row, to.pack, tokens});
    if (from.end <= to.end) ++f;
    if (to.end <= from.end) ++b;
  }
  for (std::vector<PackOverlap>& own : out)
    std::sort(own.begin(), own.end(), [](const PackOverlap& a, const PackOverlap& b) {
      return std::pair(a.forward_row, a.backward_row) < std::pair(b.forward_row, b.backward_row);
    });
  return out;
}

}  // namespace slimpack
