#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/partition/balanced_rank_rows.hpp"
#include "slimpack/partition/nested_rank_groups.hpp"
#include "slimpack/partition/packed_rank_rows.hpp"

namespace slimpack {

/// Who makes rows of samples on groups of ranks.
enum class RankScheduler : std::uint8_t {
  packed,           ///< `packed_rank_rows`
  balanced,         ///< `balanced_rank_rows`, samples one by one
  balanced_packed,  ///< the same with packs
  nested,           ///< `nested_rank_groups`
};

/// A scheduler's name in notes.
[[nodiscard]] constexpr const char* rank_scheduler_name(RankScheduler scheduler) {
  switch (scheduler) {
    case RankScheduler::packed:
      return "the default scheduler";
    case RankScheduler::balanced:
      return "the balanced scheduler";
    case RankScheduler::balanced_packed:
      return "the balanced scheduler with packs";
    case RankScheduler::nested:
      break;
  }
  return "nested groups";
}

/// Makes rows of the same samples by one scheduler or another, which decides by squared tokens, as Megatron Core's do, or
/// by seconds.
class RankSchedulers {
 public:
  /// @param lengths of all samples; they have to outlive this. @param sizes of groups, ascending, none above `ranks`.
  /// @param seconds of a sample on each rank of a group: `seconds(length, size)`.
  template <class Seconds>
  RankSchedulers(std::span<const Tokens> lengths, std::size_t ranks, const std::vector<std::size_t>& sizes,
                 const Seconds& seconds)
      : by_squares_(lengths, ranks, sizes, squared_tokens),
        by_seconds_(lengths, ranks, sizes, seconds),
        nested_by_squares_(by_squares_),
        nested_by_seconds_(by_seconds_) {}
  RankSchedulers(const RankSchedulers&) = delete;
  RankSchedulers& operator=(const RankSchedulers&) = delete;

  /// The samples and groups, with work in seconds.
  [[nodiscard]] const RankDomain& domain() const { return by_seconds_; }

  /// @param limit tokens of a pack on each rank. @param by_seconds what decides; otherwise squared tokens.
  /// @throws InvalidInput if the largest group can't hold a sample. Complexity: the scheduler's.
  [[nodiscard]] std::vector<RankRow> operator()(RankScheduler scheduler, Tokens limit, bool by_seconds) {
    if (scheduler == RankScheduler::nested)
      return (by_seconds ? nested_by_seconds_ : nested_by_squares_)(limit);
    const RankDomain& domain = by_seconds ? by_seconds_ : by_squares_;
    if (scheduler == RankScheduler::packed) return packed_rank_rows(domain, limit);
    return balanced_rank_rows(domain, limit, scheduler == RankScheduler::balanced_packed);
  }

 private:
  RankDomain by_squares_, by_seconds_;
  NestedRankGroups nested_by_squares_, nested_by_seconds_;
};

}  // namespace slimpack
