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
  Tokens begin, end;
  std::uint32_t row;
  PackId pack;
};

/// Pieces of each sample, in token order. O(slices), and to sort them.
[[nodiscard]] inline std::vector<std::vector<SamplePiece>> sample_pieces(const PackRows& rows,
                                                                         std::size_t samples) {
  std::vector<std::vector<SamplePiece>> out(samples);
  for (std::size_t r = 0; r < rows.rows.size(); ++r) {
    for (const PackId pack : rows.rows[r]) {
      for (const Slice& slice : rows.packs[pack])
        out[slice.sample].push_back({slice.begin, slice.end, static_cast<std::uint32_t>(r), pack});
    }
  }
  for (auto& own : out)
    std::sort(own.begin(), own.end(),
              [](const SamplePiece& a, const SamplePiece& b) { return a.begin < b.begin; });
  return out;
}

}  // namespace detail

/// What forward and backward packs have in common, [pipeline], by rows of the forward pass. @param samples of the batch: slices name lower ids.
/// O(slices + samples), and to sort slices.
[[nodiscard]] inline std::vector<std::vector<PackOverlap>> pack_overlaps(const PackRows& forward,
                                                                         const PackRows& backward,
                                                                         std::size_t samples,
                                                                         std::size_t pipelines) {
  std::vector<std::vector<PackOverlap>> out(pipelines);
  const auto before = detail::sample_pieces(forward, samples),
             after = detail::sample_pieces(backward, samples);
  for (std::size_t sample = 0; sample < samples; ++sample) {
    for (std::size_t f = 0, b = 0; f < before[sample].size() && b < after[sample].size();) {
      const detail::SamplePiece &from = before[sample][f], &to = after[sample][b];
      const Tokens common = std::min(from.end, to.end) - std::max(from.begin, to.begin);
      const double tokens = static_cast<double>(common) / static_cast<double>(backward.sharers[to.pack]);
      for (const std::uint32_t p : backward.members[to.pack])
        out[p].push_back({from.row, to.row, to.pack, tokens});
      from.end <= to.end ? ++f : ++b;
    }
  }
  for (std::vector<PackOverlap>& own : out)
    std::sort(own.begin(), own.end(), [](const PackOverlap& a, const PackOverlap& b) {
      return std::pair(a.forward_row, a.backward_row) < std::pair(b.forward_row, b.backward_row);
    });
  return out;
}

}  // namespace slimpack
