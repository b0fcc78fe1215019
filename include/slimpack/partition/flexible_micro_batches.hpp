#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "slimpack/partition/flexible_groups.hpp"
#include "slimpack/partition/similar_micro_batches.hpp"

namespace slimpack {

/// Finds the groups of micro-batches (`flexible_groups`), and uses them again for lower limits that they keep.
class FlexibleRows {
 public:
  struct Row {
    Tokens limit = -1;    ///< of a rank's tokens, with which the groups were found
    double tokens = 0.0;  ///< that a rank has at most
    std::size_t id = 0;   ///< equal ones are the same groups
    FlexibleRow groups = {};
  };

  /// @param domain has to outlive this. @param splits to try for a micro-batch.
  FlexibleRows(const RankDomain& domain, std::size_t splits) : domain_(domain), splits_(splits) {}

  /// Forgets all groups, and tries so many splits from now on.
  void start_again(std::size_t splits) {
    splits_ = splits;
    rows_.clear();
  }

  /// The groups of a micro-batch. Those found with a larger limit serve if they keep this one.
  /// @param samples longest first; always the same memory for the same samples. @param limit tokens of each rank.
  [[nodiscard]] const Row& operator()(std::span<const SampleId> samples, Tokens limit) {
    Row& known = rows_[{samples.data(), samples.size()}];
    if (limit <= known.limit && known.tokens <= static_cast<double>(limit)) return known;
    known = {limit, 0.0, ++ids_, flexible_groups(domain_, limit, samples, trials(samples.size()))};
    for (const RankGroup& group : known.groups.row) {
      double tokens = 0.0;
      for (const SampleId id : group.samples) tokens += static_cast<double>(domain_.length(id));
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

  const RankDomain& domain_;
  std::size_t splits_;
  std::map<std::pair<const SampleId*, std::size_t>, Row> rows_;  // by the micro-batch's samples
  std::size_t ids_ = 0;
};

/// All samples in micro-batches of similar lengths, each on groups of different sizes, as FlexSP has them.
class FlexibleMicroBatches {
 public:
  struct Made {
    bool held = true;  ///< whether no micro-batch was found to be too large
    double work =
        std::numeric_limits<double>::infinity();  ///< of the busiest ranks; infinite: there are no rows
    std::vector<RankRow> rows = {};               ///< of each micro-batch
    std::vector<std::size_t> ids = {};            ///< of the rows; equal ones are the same
  };

  /// @param domain has to outlive this. @param constant work of each micro-batch beyond that of its samples.
  /// @param splits to try for a micro-batch.
  FlexibleMicroBatches(const RankDomain& domain, double constant, std::size_t splits)
      : domain_(domain),
        constant_(constant),
        samples_(detail::longest_first(domain)),
        ends_(each([&](SampleId id) { return static_cast<double>(domain.length(id)); })),
        rows_(domain, splits) {}

  // `rows_` knows micro-batches by their place in `samples_`.
  FlexibleMicroBatches(const FlexibleMicroBatches&) = delete;
  FlexibleMicroBatches& operator=(const FlexibleMicroBatches&) = delete;

  /// Later calls are about at most so many tokens of each rank. @pre the largest group holds each sample so.
  void use_limit(Tokens limit) {
    limit_ = limit;
    ends_.use_work(each([&](SampleId id) { return domain_.group_work(id, limit); }));
    least_ = each([&](SampleId id) { return least_sample_work(domain_, limit, id); });
  }

  /// Forgets all groups, and tries so many splits for each micro-batch from now on.
  void start_again(std::size_t splits) { rows_.start_again(splits); }

  /// At most `count` micro-batches. @pre `use_limit` was called, and count is positive.
  /// @param most gives up those with so much work or more.
  /// Complexity: that of `flexible_groups` for each micro-batch that is new.
  [[nodiscard]] Made operator()(std::size_t count, MicroBatchCut cut, double most) {
    const std::vector<std::size_t>& ends = ends_(count, cut);
    std::vector<double> least{0.0};  // work of micro-batches from the last on
    for (std::size_t k = ends.size(); k-- > 0;)
      least.push_back(least.back() + constant_ + least_group_work(domain_, part(least_, ends, k)));
    Made made;
    double work = 0.0;
    for (std::size_t k = 0; k < ends.size(); ++k) {
      if (work + least[ends.size() - k] >= most) return {};
      const FlexibleRows::Row& known = rows_(part(samples_, ends, k), limit_);
      if (known.groups.row.empty()) return {.held = false};
      work += known.groups.work + constant_;
      made.rows.push_back(known.groups.row);
      made.ids.push_back(known.id);
    }
    made.work = work;
    return made;
  }

 private:
  /// What a function says about each sample, longest first.
  template <class Of>
  [[nodiscard]] std::vector<std::invoke_result_t<Of, SampleId>> each(const Of& of) const {
    std::vector<std::invoke_result_t<Of, SampleId>> all;
    all.reserve(samples_.size());
    for (const SampleId id : samples_) all.push_back(of(id));
    return all;
  }

  /// Those of all items that part `k` holds. @param ends of the parts.
  template <class T>
  [[nodiscard]] static std::span<const T> part(const std::vector<T>& all, std::span<const std::size_t> ends,
                                               std::size_t k) {
    const std::size_t begin = k == 0 ? 0 : ends[k - 1];
    return std::span(all).subspan(begin, ends[k] - begin);
  }

  const RankDomain& domain_;
  double constant_;
  std::vector<SampleId> samples_;  // longest first
  MicroBatchEnds ends_;
  FlexibleRows rows_;
  Tokens limit_ = 0;
  std::vector<LeastSampleWork> least_;  // of the samples, longest first, with this limit
};

}  // namespace slimpack
