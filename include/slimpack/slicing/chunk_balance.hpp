#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/slicing/equal_slices.hpp"

namespace slimpack {

/// Relative standard deviations of the chunks' time and tokens that are asked for, as shares of the mean, positive.
struct ChunkDeviations {
  double seconds = 0.0, tokens = 0.0;
};

/// How far from some deviations all ways are to make so many chunks of a batch as InfiniPipe does (`pack_chunks`):
/// whichever mesh of slices that end at multiples of a tile cuts long samples, and however the rest is packed, (time /
/// asked)^2 + (tokens / asked)^2 is at least this. Above 2, the deviations that are asked for can't both be met.
///
/// A slice that does not end its sample is a chunk by itself, and deviates by what it has. The last slice of a sample,
/// or a whole sample that the first slice holds, may be joined by others, and deviates by what it has above the mean at
/// least. Dynamic programming finds the mesh with the least sum of their squares.
///
/// @param prices of which a sample's slices take as much as the whole sample. @param slices of the longest sample.
/// @param chunks in all.
/// @param tile positive. O((longest / tile)^2 * slices + longest / tile * samples).
[[nodiscard]] inline double least_chunk_deviation(std::span<const Tokens> lengths, const SlicePrices& prices,
                                                  std::size_t slices, std::size_t chunks,
                                                  const ChunkDeviations& asked, Tokens tile) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  std::vector<Tokens> sorted(lengths.begin(), lengths.end());
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(chunks);
  double mean_tokens = 0.0, mean_seconds = 0.0;
  for (const Tokens length : sorted) {
    mean_tokens += static_cast<double>(length) / count;
    mean_seconds += prices(0, length) / count;
  }
  const auto squares = [&](Tokens begin, Tokens end, bool alone) {
    double tokens = static_cast<double>(end - begin) / mean_tokens - 1.0,
           seconds = prices(begin, end) / mean_seconds - 1.0;
    if (!alone) {
      tokens = std::max(0.0, tokens);
      seconds = std::max(0.0, seconds);
    }
    tokens /= asked.tokens;
    seconds /= asked.seconds;
    return (tokens * tokens + seconds * seconds) / count;
  };
  std::vector<Tokens> ends{0};
  while (ends.back() < sorted.back()) ends.push_back(std::min(sorted.back(), ends.back() + tile));
  const std::size_t n = ends.size();
  std::vector<std::vector<double>> table(n, std::vector<double>(n, 0.0));  // [begin][end] of a slice
  for (std::size_t a = 0; a < n; ++a) {
    double ended = 0.0;  // of samples that end in the slice
    auto next = std::upper_bound(sorted.begin(), sorted.end(), ends[a]);
    for (std::size_t b = a + 1; b < n; ++b) {
      for (; next != sorted.end() && *next <= ends[b]; ++next) ended += squares(ends[a], *next, false);
      const auto going_on = static_cast<double>(sorted.end() - next);
      table[a][b] = ended + (going_on > 0.0 ? going_on * squares(ends[a], ends[b], true) : 0.0);
    }
  }
  std::vector<double> least(n, infinite), next(n);
  least[0] = 0.0;
  for (std::size_t slice = 0; slice < slices; ++slice) {
    std::fill(next.begin(), next.end(), infinite);
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = a + 1; least[a] < infinite && b < n; ++b)
        next[b] = std::min(next[b], least[a] + table[a][b]);
    }
    std::swap(least, next);
  }
  return least.back();
}

}  // namespace slimpack
