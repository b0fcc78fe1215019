#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/packs.hpp"
#include "slimpack/partition/rank_rows.hpp"
#include "slimpack/slicing/pack_rows.hpp"

namespace slimpack {

/// Packs of whole samples of one pass on ranks, each rank a pipeline, and the row of groups that each belongs to.
struct RankPacks {
  PackRows packs;
  std::vector<std::uint32_t> row;  ///< [pack]
};

/// Makes packs of rows of groups. @param lengths of all samples. @param one_by_one a pack for each sample; otherwise one for each
/// group. O(samples * ranks).
[[nodiscard]] inline RankPacks rank_packs(std::span<const Tokens> lengths, std::span<const RankRow> rows,
                                          std::size_t ranks, bool one_by_one) {
  Packs packs;
  Ragged<std::uint32_t> members;
  RankPacks out;
  const auto close = [&](const RankGroup& group, std::size_t row) {
    packs.close();
    const std::span<std::uint32_t> own = members.add_row(group.size);
    std::iota(own.begin(), own.end(), static_cast<std::uint32_t>(group.first));
    out.row.push_back(static_cast<std::uint32_t>(row));
  };
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (const RankGroup& group : rows[r]) {
      for (const SampleId id : group.samples) {
        packs.add({id, 0, lengths[id]});
        if (one_by_one) close(group, r);
      }
      if (!one_by_one) close(group, r);
    }
  }
  out.packs = in_rows(std::move(packs), std::move(members), ranks);
  return out;
}

}  // namespace slimpack
