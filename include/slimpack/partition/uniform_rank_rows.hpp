#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/packing.hpp"
#include "slimpack/partition/rank_rows.hpp"

namespace slimpack {

/// Best-fit-decreasing packs of whole samples on groups of one size: as many in each row as there are groups, those with the most
/// attention first, so that packs of a row take about as long. @param length most tokens of a pack, on all ranks of
/// its group together. @pre no sample is longer, and size divides ranks. O(n log n).
[[nodiscard]] inline std::vector<RankRow> uniform_rank_rows(std::span<const Tokens> lengths, Tokens length,
                                                            std::size_t ranks, std::size_t size) {
  const Packing packing = best_fit_decreasing(lengths, length);
  struct Bin {
    double squares = 0.0;
    std::vector<SampleId> samples = {};
  };
  std::vector<Bin> bins(packing.load.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    Bin& bin = bins[packing.bin[i]];
    bin.squares += squared_tokens(lengths[i], 1);
    bin.samples.push_back(static_cast<SampleId>(i));
  }
  std::stable_sort(bins.begin(), bins.end(),
                   [](const Bin& a, const Bin& b) { return a.squares > b.squares; });
  std::vector<RankRow> rows;
  for (std::size_t k = 0; k < bins.size(); ++k) {
    const std::size_t group = k % (ranks / size);
    if (group == 0) rows.emplace_back();
    rows.back().push_back({group * size, size, std::move(bins[k].samples)});
  }
  return rows;
}

}  // namespace slimpack
