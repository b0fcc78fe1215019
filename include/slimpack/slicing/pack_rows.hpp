#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/packs.hpp"
#include "slimpack/core/ragged.hpp"

namespace slimpack {

/// Packs of one pass on some pipelines, in the order in which they run: row by row. A pipeline has at most one pack in a
/// row. A pack that several pipelines share stands once, in one row of them all; samples may be shared by different
/// pipelines, and pipelines may have different numbers of packs.
struct PackRows {
  Packs packs;
  Ragged<std::uint32_t> members;  ///< [pack] places among the pipelines of those that run it, ascending
  /// [pack] Pipelines that share it: its members, or more where a member stands for others that are like it.
  std::vector<std::uint32_t> sharers;
  Ragged<PackId> rows;  ///< [row] its packs

  /// Leaves no packs, and keeps the memory.
  void clear() {
    packs.clear();
    members.clear();
    sharers.clear();
    rows.clear();
  }
};

/// Stands for the pack of a row in which a pipeline has none.
inline constexpr PackId no_pack = static_cast<PackId>(-1);

/// The pack of each pipeline in each row, [pipeline][row]; `no_pack` where it has none. O(rows * pipelines).
[[nodiscard]] inline std::vector<std::vector<PackId>> packs_by_row(const PackRows& rows,
                                                                   std::size_t pipelines) {
  std::vector<std::vector<PackId>> out(pipelines, std::vector<PackId>(rows.rows.size(), no_pack));
  for (std::size_t r = 0; r < rows.rows.size(); ++r) {
    for (const PackId pack : rows.rows[r]) {
      for (const std::uint32_t p : rows.members[pack]) out[p][r] = pack;
    }
  }
  return out;
}

/// Puts packs into rows: each into the first row after those of the packs before it that share a pipeline with it.
/// @param members [pack] places of the pipelines that run it, each below `pipelines`. O(packs * members).
[[nodiscard]] inline PackRows in_rows(Packs packs, Ragged<std::uint32_t> members, std::size_t pipelines) {
  std::vector<std::size_t> next(pipelines, 0), row(packs.size());
  std::size_t rows = 0;
  for (std::size_t k = 0; k < packs.size(); ++k) {
    for (const std::uint32_t p : members[k]) row[k] = std::max(row[k], next[p]);
    for (const std::uint32_t p : members[k]) next[p] = row[k] + 1;
    rows = std::max(rows, row[k] + 1);
  }
  std::vector<std::vector<PackId>> by_row(rows);
  for (std::size_t k = 0; k < packs.size(); ++k) by_row[row[k]].push_back(static_cast<PackId>(k));
  PackRows out{.packs = std::move(packs), .members = std::move(members), .sharers = {}, .rows = {}};
  for (std::size_t k = 0; k < out.packs.size(); ++k)
    out.sharers.push_back(static_cast<std::uint32_t>(out.members[k].size()));
  for (const std::vector<PackId>& own : by_row) {
    for (const PackId pack : own) out.rows.add(pack);
    out.rows.close();
  }
  return out;
}

/// Packs that `pipelines` pipelines run together, one in each row. O(packs * pipelines).
[[nodiscard]] inline PackRows in_rows(Packs packs, std::size_t pipelines = 1) {
  PackRows out{.packs = std::move(packs), .members = {}, .sharers = {}, .rows = {}};
  out.sharers.assign(out.packs.size(), static_cast<std::uint32_t>(pipelines));
  for (PackId k = 0; k < out.packs.size(); ++k) {
    const std::span<std::uint32_t> members = out.members.add_row(pipelines);
    std::iota(members.begin(), members.end(), std::uint32_t{0});
    out.rows.add_row(1, k);
  }
  return out;
}

/// Puts the packs of a group into rows: a merged pack in a row of its own, and the k-th local packs of all members in one row,
/// after the merged ones or before them. The first `merged` packs are the merged ones. O(packs * members).
/// @param sharers of merged packs. @param first [member] number of its first local pack, and the end.
inline void put_group_in_rows(std::size_t merged, std::size_t sharers, std::span<const std::size_t> first,
                              bool merged_last, PackRows& out) {
  const std::size_t members = first.size() - 1;
  for (std::size_t k = 0; k < merged; ++k) {
    for (std::uint32_t i = 0; i < members; ++i) out.members.add(i);
    out.members.close();
  }
  const auto add_merged = [&] {
    for (std::size_t k = 0; k < merged; ++k) out.rows.add_row(1, static_cast<PackId>(k));
  };
  if (!merged_last) add_merged();
  out.sharers.assign(out.packs.size(), 1);
  std::fill_n(out.sharers.begin(), merged, static_cast<std::uint32_t>(sharers));
  std::size_t most = 0;
  for (std::size_t i = 0; i < members; ++i) {
    most = std::max(most, first[i + 1] - first[i]);
    for (std::size_t k = first[i]; k < first[i + 1]; ++k)
      out.members.add_row(1, static_cast<std::uint32_t>(i));
  }
  for (std::size_t r = 0; r < most; ++r) {
    for (std::size_t i = 0; i < members; ++i) {
      if (first[i] + r < first[i + 1]) out.rows.add(static_cast<PackId>(first[i] + r));
    }
    out.rows.close();
  }
  if (merged_last) add_merged();
}

}  // namespace slimpack
