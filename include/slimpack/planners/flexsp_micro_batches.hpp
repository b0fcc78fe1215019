#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/flexible_groups.hpp"
#include "slimpack/partition/similar_lengths.hpp"

namespace slimpack::detail {

/// How samples of similar lengths are cut into micro-batches.
enum class MicroBatchCut : std::uint8_t {
  tokens,            ///< as equal in tokens as can be, the first as full as that allows
  tokens_last_full,  ///< the same, the last as full as that allows, as the authors do
  work,              ///< as equal in work as can be
};

/// Micro-batches of samples of similar lengths.
struct MicroBatches {
  Tokens limit = 0;  ///< tokens of each rank
  std::size_t count = 0;
  MicroBatchCut cut = MicroBatchCut::tokens;
};

/// Those of all items that part `k` holds. @param ends of the parts.
template <class T>
[[nodiscard]] std::span<const T> part(const std::vector<T>& all, std::span<const std::size_t> ends,
                                      std::size_t k) {
  const std::size_t begin = k == 0 ? 0 : ends[k - 1];
  return std::span(all).subspan(begin, ends[k] - begin);
}

/// Where micro-batches of samples of similar lengths end. Each is found once.
class MicroBatchEnds {
 public:
  /// @param tokens of the samples, longest first.
  explicit MicroBatchEnds(std::span<const double> tokens) : by_tokens_(tokens) {}

  /// @param work of the samples, longest first, that later calls are about.
  void use_work(std::span<const double> work) {
    by_work_ = RowCuts(work);
    ends_[index(MicroBatchCut::work)].clear();
  }

  /// The end of each of `count` micro-batches among the samples.
  [[nodiscard]] const std::vector<std::size_t>& operator()(std::size_t count, MicroBatchCut cut) {
    std::vector<std::size_t>& ends = ends_[index(cut)][count];
    if (!ends.empty()) return ends;
    const RowCuts& cuts = cut == MicroBatchCut::work ? by_work_ : by_tokens_;
    ends = cut == MicroBatchCut::tokens_last_full ? lightest_parts_last_full(cuts, count)
                                                  : lightest_parts(cuts, count);
    return ends;
  }

 private:
  static std::size_t index(MicroBatchCut cut) { return static_cast<std::size_t>(cut); }

  RowCuts by_tokens_, by_work_ = RowCuts({});
  std::array<std::map<std::size_t, std::vector<std::size_t>>, 3> ends_;  // [cut][count]
};

/// The groups of micro-batches, kept for limits with which they serve as well.
class FlexibleRows {
 public:
  struct Row {
    Tokens limit = -1;    ///< of a rank's tokens, with which the groups were found
    double tokens = 0.0;  ///< that a rank has at most
    std::size_t id = 0;   ///< equal ones are the same groups
    FlexibleRow groups = {};
  };

  /// @param splits to try for a micro-batch. @param lengths, domain have to outlive this.
  FlexibleRows(std::span<const Tokens> lengths, const RankDomain& domain, std::size_t splits)
      : lengths_(lengths), domain_(domain), splits_(splits) {}

  /// Forgets all groups, and tries so many splits from now on.
  void start_again(std::size_t splits) {
    splits_ = splits;
    rows_.clear();
  }

  /// The groups of a micro-batch. Those found with a larger limit serve if they keep this one.
  /// @param samples always the same memory for the same samples.
  [[nodiscard]] const Row& operator()(std::span<const SampleId> samples, Tokens limit) {
    Row& known = rows_[{samples.data(), samples.size()}];
    if (limit <= known.limit && known.tokens <= static_cast<double>(limit)) return known;
    known = {limit, 0.0, ++ids_, flexible_groups(domain_, limit, samples, trials(samples.size()))};
    for (const RankGroup& group : known.groups.row) {
      double tokens = 0.0;
      for (const SampleId id : group.samples) tokens += static_cast<double>(lengths_[id]);
      known.tokens = std::max(known.tokens, tokens / static_cast<double>(group.size));
    }
    return known;
  }

 private:
  /// Splits to try for a micro-batch: fewer if it has many samples on many ranks.
  [[nodiscard]] std::size_t trials(std::size_t samples) const {
    constexpr std::size_t most_placements = 2'000'000, fewest = 8;
    const std::size_t affordable = most_placements / (samples * domain_.ranks());
    return std::min(splits_, std::max(fewest, affordable));
  }

  std::span<const Tokens> lengths_;
  const RankDomain& domain_;
  std::size_t splits_;
  std::map<std::pair<const SampleId*, std::size_t>, Row> rows_;  // by the micro-batch's samples
  std::size_t ids_ = 0;
};

}  // namespace slimpack::detail
