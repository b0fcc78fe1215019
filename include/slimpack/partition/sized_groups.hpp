#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/partition/few_samples_on_groups.hpp"
#include "slimpack/partition/group_exchanges.hpp"
#include "slimpack/partition/rank_rows.hpp"

namespace slimpack::detail {

/// Samples on groups of some sizes, largest first, so that the busiest group has little work: longest samples first,
/// each where it ends earliest, then moves and exchanges of samples of the busiest group. Of few samples, other
/// distributions are tried as well.
class SizedGroups {
 public:
  using Group = OpenRow::Group;

  /// @param domain has to outlive this. @param limit tokens of each rank. @param samples to distribute, longest first.
  SizedGroups(const RankDomain& domain, Tokens limit, std::span<const SampleId> samples)
      : domain_(&domain),
        samples_(samples),
        limit_(static_cast<double>(limit)),
        exchanges_(domain, limit_, samples),
        few_(domain, limit_) {}

  /// Distributes the samples. @param counts groups of each size.
  /// @returns the work of the busiest group; infinite if samples don't fit so.
  double operator()(std::span<const std::uint32_t> counts) {
    open(counts);
    for (const SampleId id : samples_) {
      if (!add_where_it_ends_first(id)) return infinite;
    }
    for (std::size_t round = 0; round < 2 * groups_.size() + 8 && exchanges_.improve(groups_); ++round)
      continue;
    if (samples_.size() <= FewSamplesOnGroups::most_samples) few_.improve(samples_, groups_);
    return GroupExchanges::busiest(groups_).work;
  }

  /// The groups that have samples, each on the ranks after those of the group before it.
  [[nodiscard]] RankRow row() const {
    RankRow row;
    std::size_t first = 0;
    for (const Group& group : groups_) {
      const std::size_t size = domain_->size(group.place);
      if (!group.samples.empty()) row.push_back({first, size, group.samples});
      first += size;
    }
    return row;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  void open(std::span<const std::uint32_t> counts) {
    std::size_t count = 0;
    for (const std::uint32_t each : counts) count += each;
    groups_.resize(count);
    by_work_.resize(count);
    class_begins_.clear();
    std::size_t g = 0;
    for (std::size_t place = counts.size(); place-- > 0;) {
      if (counts[place] > 0) class_begins_.push_back(g);
      for (std::uint32_t i = 0; i < counts[place]; ++i, ++g) {
        groups_[g].place = place;
        groups_[g].work = groups_[g].tokens = 0.0;
        groups_[g].samples.clear();
        by_work_[g] = static_cast<std::uint32_t>(g);
      }
    }
    class_begins_.push_back(count);
  }

  /// Groups of one size are kept by rising work, so that mostly one of each size is looked at.
  bool add_where_it_ends_first(SampleId id) {
    constexpr std::size_t none = ~std::size_t{0};
    std::size_t at = none, end = none;
    double least = infinite;
    for (std::size_t c = 0; c + 1 < class_begins_.size(); ++c) {
      const std::size_t place = groups_[class_begins_[c]].place;
      const double own = domain_->work(id, place);
      for (std::size_t i = class_begins_[c]; i < class_begins_[c + 1]; ++i) {
        const Group& group = groups_[by_work_[i]];
        if (group.work + own >= least) break;
        if (group.tokens + domain_->tokens_per_rank(id, place) > limit_) continue;
        least = group.work + own;
        at = i;
        end = class_begins_[c + 1];
        break;
      }
    }
    if (at == none) return false;
    const std::uint32_t g = by_work_[at];
    groups_[g].work = least;
    groups_[g].tokens += domain_->tokens_per_rank(id, groups_[g].place);
    groups_[g].samples.push_back(id);
    for (; at + 1 < end && groups_[by_work_[at + 1]].work < least; ++at) by_work_[at] = by_work_[at + 1];
    by_work_[at] = g;
    return true;
  }

  const RankDomain* domain_;
  std::span<const SampleId> samples_;
  double limit_;
  GroupExchanges exchanges_;
  FewSamplesOnGroups few_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> by_work_;     // places of groups: those of each size by rising work
  std::vector<std::size_t> class_begins_;  // of the sizes among the groups, and the end
};

}  // namespace slimpack::detail
