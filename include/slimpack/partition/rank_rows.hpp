#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/partition/longest_first.hpp"
#include "slimpack/partition/rank_domain.hpp"

namespace slimpack {

/// Neighbouring ranks that run whole samples together.
struct RankGroup {
  std::size_t first = 0;  ///< ranks first, first + 1, …
  std::size_t size = 0;
  std::vector<SampleId> samples = {};  ///< in the order in which they are run

  friend bool operator==(const RankGroup&, const RankGroup&) = default;
};

/// Groups that run at the same time, by rising rank; no rank is in two of them.
using RankRow = std::vector<RankGroup>;

namespace detail {

/// A row that is being filled: groups of ranks, one after another from the first rank on.
class OpenRow {
 public:
  struct Group {
    std::size_t place = 0;  ///< of its size
    double work = 0.0;      ///< of each of its ranks
    double tokens = 0.0;    ///< that each of its ranks holds
    std::vector<SampleId> samples = {};
  };

  /// @param domain has to outlive this.
  explicit OpenRow(const RankDomain& domain) : domain_(&domain) {}

  [[nodiscard]] std::span<const Group> groups() const { return groups_; }
  [[nodiscard]] std::size_t free_ranks() const { return domain_->ranks() - used_; }
  /// Work of the busiest rank.
  [[nodiscard]] double most_work() const {
    double most = 0.0;
    for (const Group& group : groups_) most = std::max(most, group.work);
    return most;
  }
  /// Work of the least busy rank.
  [[nodiscard]] double least_work() const {
    double least = free_ranks() > 0 ? 0.0 : most_work();
    for (const Group& group : groups_) least = std::min(least, group.work);
    return least;
  }

  /// Opens a group of free ranks. @pre there are enough.
  void open(std::size_t place, SampleId id) {
    used_ += domain_->size(place);
    groups_.push_back({.place = place});
    add(groups_.size() - 1, id);
  }
  void add(std::size_t g, SampleId id) {
    Group& group = groups_[g];
    group.work += domain_->work(id, group.place);
    group.tokens += domain_->tokens_per_rank(id, group.place);
    group.samples.push_back(id);
  }
  /// Takes the last sample out of a group.
  SampleId take_last(std::size_t g) {
    Group& group = groups_[g];
    const SampleId id = group.samples.back();
    group.samples.pop_back();
    group.work -= domain_->work(id, group.place);
    group.tokens -= domain_->tokens_per_rank(id, group.place);
    return id;
  }

  /// Gives free ranks to the smallest groups, the first of them first, each of which grows to the next size.
  /// @returns whether no rank is left. O(ranks * groups).
  bool widen() {
    while (free_ranks() > 0) {
      const auto smallest = std::min_element(
          groups_.begin(), groups_.end(), [](const Group& a, const Group& b) { return a.place < b.place; });
      if (smallest == groups_.end() || smallest->place + 1 == domain_->sizes()) return false;
      const std::size_t more = domain_->size(smallest->place + 1) - domain_->size(smallest->place);
      if (more > free_ranks()) return false;
      ++smallest->place;
      used_ += more;
    }
    return true;
  }

  /// The groups, each on the ranks after those of the group before it.
  [[nodiscard]] RankRow take() {
    RankRow row;
    std::size_t first = 0;
    for (Group& group : groups_) {
      row.push_back({first, domain_->size(group.place), std::move(group.samples)});
      first += row.back().size;
    }
    return row;
  }

 private:
  const RankDomain* domain_;
  std::vector<Group> groups_;
  std::size_t used_ = 0;  // ranks of all groups
};

/// A row of one group of all ranks: the samples in their order, each that still fits into `limit` tokens of a rank.
/// @param[out] rest the others.
[[nodiscard]] inline RankRow row_of_all_ranks(const RankDomain& domain, Tokens limit,
                                              std::span<const SampleId> samples,
                                              std::vector<SampleId>& rest) {
  RankGroup all{.first = 0, .size = domain.ranks()};
  const std::size_t place = domain.sizes() - 1;
  double tokens = 0.0;
  rest.clear();
  for (const SampleId id : samples) {
    const double own = domain.tokens_per_rank(id, place);
    const bool fits = tokens + own <= static_cast<double>(limit);
    if (fits) tokens += own;
    (fits ? all.samples : rest).push_back(id);
  }
  return {std::move(all)};
}

/// Closes a row so that all ranks have work: groups are widened. Where sizes of groups do not add up to the ranks, one group of
/// all ranks runs what fits, if there may be one; otherwise ranks stay without work.
/// @param samples that the row was filled from. @param[in,out] rest of them.
[[nodiscard]] inline RankRow close_row(const RankDomain& domain, Tokens limit,
                                       std::span<const SampleId> samples, OpenRow& row,
                                       std::vector<SampleId>& rest) {
  const bool all = row.widen() || domain.size(domain.sizes() - 1) < domain.ranks();
  return all ? row.take() : row_of_all_ranks(domain, limit, samples, rest);
}

/// All samples, longest first; those of equal length in their order.
[[nodiscard]] inline std::vector<SampleId> longest_first(const RankDomain& domain) {
  return longest_first(domain.lengths());
}

/// @throws InvalidInput if even the largest group holds more than `limit` tokens of a sample on each rank.
inline void require_room(const RankDomain& domain, Tokens limit) {
  for (SampleId id = 0; id < domain.samples(); ++id) {
    require(domain.least_place(id, limit) < domain.sizes(), "sample ", id, " has ", domain.length(id),
            " tokens; expected at most the limit of ", limit, " on each of ", domain.size(domain.sizes() - 1),
            " ranks");
  }
}

}  // namespace detail

}  // namespace slimpack
