#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/schedule/pack_shares.hpp"

namespace slimpack {

/// Tokens that are in one forward and one backward pack. They are held from the one to the other.
struct PackOverlap {
  std::uint32_t forward_row;
  std::uint32_t backward_row;
  PackId backward_pack;
  double tokens;  ///< on the pipeline
  Tokens all;     ///< of all pipelines that run the packs
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

/// What the packs of both passes have in common, [pipeline], by rows of the forward pass.
/// O(slices * (log slices + members)). @pre both passes have the same tokens of each sample.
[[nodiscard]] inline std::vector<std::vector<PackOverlap>> pack_overlaps(const PackRows& forward,
                                                                         const PackShares& backward,
                                                                         std::size_t pipelines) {
  std::vector<std::vector<PackOverlap>> out(pipelines);
  const std::vector<detail::SamplePiece> before = detail::sample_pieces(forward),
                                         after = detail::sample_pieces(backward.rows);
  for (std::size_t f = 0, b = 0; f < before.size() && b < after.size();) {
    const detail::SamplePiece &from = before[f], &to = after[b];
    const Slice common{to.sample, std::max(from.begin, to.begin), std::min(from.end, to.end)};
    const auto members = backward.rows.members[to.pack];
    for (std::size_t i = 0; i < members.size(); ++i)
      out[members[i]].push_back({from.row, to.row, to.pack, backward(to.pack, i)(common), common.size()});
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
