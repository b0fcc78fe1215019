#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/hybrid_rank_packs.hpp"
#include "slimpack/partition/packed_rank_rows.hpp"
#include "slimpack/partition/rank_domain.hpp"

namespace slimpack {

/// How packs of hybrid data parallelism are made.
enum class HybridKind : std::uint8_t {
  ranks,         ///< `hybrid_rank_packs`, all ranks with equal work
  packs,         ///< the same, all packs with equal work
  rows,          ///< `packed_rank_rows`: all packs that run at the same time with equal work
  squared_rows,  ///< the same, work being squared tokens
};

/// A kind's name in notes.
[[nodiscard]] constexpr const char* hybrid_kind_name(HybridKind kind) {
  if (kind == HybridKind::ranks) return "DP balance";
  if (kind == HybridKind::packs) return "PP balance";
  return kind == HybridKind::rows ? "PP balance, row by row" : "PP balance, row by row, of squared tokens";
}

/// Makes the packs of hybrid data parallelism in any of these ways, for one choice of group sizes and any limits.
class HybridRankRows {
 public:
  /// @param lengths of all samples, at least one; they have to outlive this. @param sizes of groups for the first two kinds, such
  /// as `hybrid_group_sizes`. @param row_sizes for the others, such as `rank_group_sizes`. @param work as `RankDomain` takes it.
  /// @throws InvalidInput as `RankDomain`. O(samples * sizes).
  template <class Work>
  HybridRankRows(std::span<const Tokens> lengths, std::size_t ranks, std::vector<std::size_t> sizes,
                 const std::vector<std::size_t>& row_sizes, const Work& work)
      : any_(lengths, ranks, std::move(sizes), work),
        rows_(lengths, ranks, row_sizes, work),
        squared_rows_(lengths, ranks, row_sizes, squared_tokens) {}

  /// @param limits kinds that make rows use the limit of tokens alone. @throws InvalidInput if the largest group can't hold a
  /// sample. Complexity: that of `hybrid_rank_packs` or of `packed_rank_rows`.
  [[nodiscard]] std::vector<RankRow> operator()(HybridKind kind, const HybridLimits& limits) const {
    if (kind == HybridKind::rows) return packed_rank_rows(rows_, limits.tokens);
    if (kind == HybridKind::squared_rows) return packed_rank_rows(squared_rows_, limits.tokens);
    const bool ranks = kind == HybridKind::ranks;
    return hybrid_rank_packs(any_, limits, ranks ? HybridBalance::ranks : HybridBalance::packs);
  }

  /// Samples and groups of the first two kinds.
  [[nodiscard]] const RankDomain& domain() const { return any_; }

  /// Work of each rank if all samples run on the smallest groups, and ranks share it equally. O(samples).
  [[nodiscard]] double mean_work() const {
    const auto least = static_cast<double>(any_.size(0)), ranks = static_cast<double>(any_.ranks());
    double sum = 0.0;
    for (SampleId id = 0; id < any_.samples(); ++id) sum += any_.work(id, 0) * least / ranks;
    return sum;
  }

 private:
  RankDomain any_;                  // groups of any size
  RankDomain rows_, squared_rows_;  // work as given, and squared tokens
};

}  // namespace slimpack
