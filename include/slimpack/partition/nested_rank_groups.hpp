#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/greedy.hpp"
#include "slimpack/partition/local_search.hpp"
#include "slimpack/partition/packing.hpp"
#include "slimpack/partition/rank_rows.hpp"

namespace slimpack {

namespace detail {

/// Samples by the size of the group that runs each: the smallest on which no rank holds more than `limit` tokens of it,
/// or works on it for longer than an equal share of all work; [place of the size], longest first.
[[nodiscard]] inline std::vector<std::vector<SampleId>> samples_by_size(const RankDomain& domain,
                                                                        Tokens limit) {
  double share = 0.0;
  for (SampleId id = 0; id < domain.samples(); ++id)
    share += domain.work(id, 0) * static_cast<double>(domain.size(0)) / static_cast<double>(domain.ranks());
  std::vector<std::vector<SampleId>> out(domain.sizes());
  for (const SampleId id : longest_first(domain)) {
    std::size_t place = domain.least_place(id, limit);
    while (place + 1 < domain.sizes() && domain.work(id, place) > share) ++place;
    out[place].push_back(id);
  }
  return out;
}

/// Puts the samples of one size on groups of that size so that work becomes equal, whatever ranks have already.
/// @param[in,out] work of the ranks. @returns the groups, with samples or without.
[[nodiscard]] inline RankRow balanced_groups(const RankDomain& domain, std::size_t place,
                                             std::span<const SampleId> samples, std::vector<double>& work) {
  const std::size_t size = domain.size(place);
  std::vector<double> weights, loads;
  for (const SampleId id : samples) weights.push_back(domain.work(id, place));
  RankRow groups;
  for (std::size_t first = 0; first + size <= domain.ranks(); first += size) {
    groups.push_back({first, size});
    loads.push_back(*std::max_element(work.begin() + static_cast<std::ptrdiff_t>(first),
                                      work.begin() + static_cast<std::ptrdiff_t>(first + size)));
  }
  Assignment assigned = LptSolver().solve(weights, loads);
  improve_assignment(weights, assigned, {.max_rounds = 2 * groups.size(), .close = 1e-4});
  for (std::size_t i = 0; i < samples.size(); ++i) groups[assigned.bin[i]].samples.push_back(samples[i]);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].samples.empty()) continue;
    for (std::size_t r = groups[g].first; r < groups[g].first + size; ++r) work[r] = assigned.load[g];
  }
  return groups;
}

/// Splits a group's samples into packs of at most `limit` tokens on each rank.
[[nodiscard]] inline std::vector<RankGroup> packs_of(const RankDomain& domain, Tokens limit,
                                                     const RankGroup& group) {
  if (group.samples.empty()) return {};
  std::vector<Tokens> lengths;
  for (const SampleId id : group.samples) lengths.push_back(domain.length(id));
  const Tokens all = std::accumulate(lengths.begin(), lengths.end(), Tokens{0});
  const auto size = static_cast<Tokens>(group.size);
  const Packing packing = first_fit_decreasing(lengths, limit > all / size ? all : limit * size);
  std::vector<RankGroup> packs(packing.load.size(), {group.first, group.size});
  for (std::size_t i = 0; i < lengths.size(); ++i) packs[packing.bin[i]].samples.push_back(group.samples[i]);
  return packs;
}

}  // namespace detail

/// Packs of whole samples on groups that lie in each other: first those of all ranks, then those of smaller and smaller
/// groups. A group's ranks have equal work when they begin, so that none waits for another until the end. Samples of
/// one size are distributed by LPT and local search, and packed first-fit decreasing, whose memory does not depend on
/// the limit. Limits that lead to the same sizes of groups share the distribution.
class NestedRankGroups {
 public:
  /// @param domain has to outlive this.
  explicit NestedRankGroups(const RankDomain& domain) : domain_(domain) {}

  /// @param limit tokens of a pack on each rank. @returns the packs in the order in which they run, each a row of one
  /// group. Ranks may have different numbers of them. @throws InvalidInput if the largest group can't hold a sample.
  /// Complexity: O(samples * (sizes + log samples)) and, for new sizes of groups, the local searches.
  [[nodiscard]] std::vector<RankRow> operator()(Tokens limit) {
    detail::require_room(domain_, limit);
    distribute(detail::samples_by_size(domain_, limit));
    std::vector<RankRow> rows;
    for (const RankGroup& group : groups_) {
      for (RankGroup& pack : detail::packs_of(domain_, limit, group)) rows.push_back({std::move(pack)});
    }
    return rows;
  }

 private:
  /// Distributes the samples of each size over groups, the largest groups first. @param by_size samples, [place of the size].
  void distribute(std::vector<std::vector<SampleId>> by_size) {
    if (by_size == by_size_) return;
    by_size_ = std::move(by_size);
    groups_.clear();
    std::vector<double> work(domain_.ranks(), 0.0);
    for (std::size_t place = domain_.sizes(); place-- > 0;) {
      if (by_size_[place].empty()) continue;
      for (RankGroup& group : detail::balanced_groups(domain_, place, by_size_[place], work))
        groups_.push_back(std::move(group));
    }
  }

  const RankDomain& domain_;
  std::vector<std::vector<SampleId>> by_size_;  // [place of the size] that `groups_` are made of
  std::vector<RankGroup> groups_;               // with their samples
};

/// One call of `NestedRankGroups`.
[[nodiscard]] inline std::vector<RankRow> nested_rank_groups(const RankDomain& domain, Tokens limit) {
  return NestedRankGroups(domain)(limit);
}

}  // namespace slimpack
