#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/rank_rows.hpp"

namespace slimpack {

/// A row of groups, and the work of its busiest rank; infinite if there is none.
struct FlexibleRow {
  RankRow row = {};
  double work = std::numeric_limits<double>::infinity();
};

namespace detail {

/// Samples on groups of some sizes, largest first, so that the busiest group has little work: longest samples first, each where it
/// ends earliest, then moves and exchanges of samples of the busiest group.
class SizedGroups {
 public:
  using Group = OpenRow::Group;

  /// @param domain has to outlive this. @param limit tokens of each rank.
  SizedGroups(const RankDomain& domain, Tokens limit)
      : domain_(&domain), limit_(static_cast<double>(limit)) {}

  /// Distributes samples. @param counts groups of each size. @param samples longest first.
  /// @returns the work of the busiest group; infinite if samples don't fit so.
  double operator()(std::span<const std::uint32_t> counts, std::span<const SampleId> samples) {
    groups_.clear();
    for (std::size_t place = counts.size(); place-- > 0;)
      groups_.insert(groups_.end(), counts[place], Group{.place = place});
    for (const SampleId id : samples) {
      Group* best = nullptr;
      double least = infinite;
      for (Group& group : groups_) {
        const double work = group.work + domain_->work(id, group.place);
        if (work < least && fits(group, id)) {
          best = &group;
          least = work;
        }
      }
      if (best == nullptr) return infinite;
      add(*best, id);
    }
    for (std::size_t round = 0; round < 2 * groups_.size() + 8 && improve(); ++round) continue;
    return busiest().work;
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
  static constexpr std::size_t none = ~std::size_t{0};

  /// A sample of the busiest group for one of another group, or for nothing.
  struct Exchange {
    Group* other = nullptr;
    std::size_t given = none,
                taken = none;  ///< places among the samples of the busiest, and of the other group
    double worse = infinite;   ///< work of the busier of both afterwards
  };

  [[nodiscard]] Group& busiest() {
    return *std::max_element(groups_.begin(), groups_.end(),
                             [](const Group& a, const Group& b) { return a.work < b.work; });
  }
  [[nodiscard]] double tokens(const Group& group, SampleId id) const {
    return domain_->tokens_per_rank(id, group.place);
  }
  [[nodiscard]] double work(const Group& group, SampleId id) const { return domain_->work(id, group.place); }
  [[nodiscard]] bool fits(const Group& group, SampleId id, double freed = 0.0) const {
    return group.tokens - freed + tokens(group, id) <= limit_;
  }

  void add(Group& group, SampleId id) {
    group.work += work(group, id);
    group.tokens += tokens(group, id);
    group.samples.push_back(id);
  }
  void remove(Group& group, std::size_t i) {
    group.work -= work(group, group.samples[i]);
    group.tokens -= tokens(group, group.samples[i]);
    group.samples.erase(group.samples.begin() + static_cast<std::ptrdiff_t>(i));
  }

  /// Lets the busiest group give a sample away, or exchange one, if that makes it less busy and no other as busy.
  bool improve() {
    Group& from = busiest();
    Exchange best{.worse = from.work * (1.0 - 1e-9)};
    for (Group& to : groups_) {
      if (&to == &from) continue;
      for (std::size_t i = 0; i < from.samples.size(); ++i) look_for_exchange(from, to, i, best);
    }
    if (best.other == nullptr) return false;
    const SampleId given = from.samples[best.given];
    remove(from, best.given);
    if (best.taken != none) {
      const SampleId taken = best.other->samples[best.taken];
      remove(*best.other, best.taken);
      add(from, taken);
    }
    add(*best.other, given);
    return true;
  }

  void look_for_exchange(const Group& from, Group& to, std::size_t i, Exchange& best) const {
    const SampleId given = from.samples[i];
    const double left = from.work - work(from, given), filled = to.work + work(to, given);
    if (left >= best.worse) return;
    if (filled < best.worse && fits(to, given)) best = {&to, i, none, std::max(left, filled)};
    for (std::size_t j = 0; j < to.samples.size(); ++j) {
      const SampleId taken = to.samples[j];
      const double worse = std::max(left + work(from, taken), filled - work(to, taken));
      if (worse < best.worse && fits(to, given, tokens(to, taken)) && fits(from, taken, tokens(from, given)))
        best = {&to, i, j, worse};
    }
  }

  const RankDomain* domain_;
  double limit_;
  std::vector<Group> groups_;
};

}  // namespace detail

/// One micro-batch of FlexSP (Wang et al., ASPLOS 2025): all ranks are split into groups of different sizes, each of which runs
/// some of the samples as one pack, such that the slowest group is as fast as can be and no rank holds more than `limit`
/// tokens. They solve a mixed-integer program over buckets of similar lengths; here, numbers of groups of each size are tried
/// best first, from groups of equal size on, each time splitting one group or joining two, and samples are distributed by
/// list scheduling and exchanges. Up to 16 ranks, all splits are tried as long as `trials` allows.
/// @param samples to distribute, longest first. @param trials splits that are tried at most.
/// @returns no row if no split that was tried holds the samples.
/// Complexity: O(trials * samples * groups) and the exchanges.
[[nodiscard]] inline FlexibleRow flexible_groups(const RankDomain& domain, Tokens limit,
                                                 std::span<const SampleId> samples, std::size_t trials = 48) {
  using Counts = std::vector<std::uint32_t>;  // groups of each size
  struct Trial {
    double work;
    Counts counts;
    bool operator<(const Trial& other) const {
      return work != other.work ? work < other.work : counts < other.counts;
    }
  };
  detail::SizedGroups groups(domain, limit);
  std::set<Trial> open;
  std::set<Counts> known;
  FlexibleRow best;
  const auto try_counts = [&](Counts counts) {
    if (known.size() >= trials || !known.insert(counts).second) return;
    const double work = groups(counts, samples);
    if (work < best.work) best = {groups.row(), work};
    open.insert({work, std::move(counts)});
  };
  for (std::size_t place = domain.sizes(); place-- > 0;) {
    Counts counts(domain.sizes(), 0);
    std::size_t left = domain.ranks();
    for (std::size_t p = place + 1; p-- > 0;) {
      counts[p] = static_cast<std::uint32_t>(left / domain.size(p));
      left %= domain.size(p);
    }
    try_counts(std::move(counts));
  }
  while (!open.empty() && known.size() < trials) {
    const Counts counts = std::move(open.extract(open.begin()).value().counts);
    for (std::size_t p = 0; p + 1 < domain.sizes(); ++p) {
      if (domain.size(p + 1) != 2 * domain.size(p)) continue;
      for (const bool join : {true, false}) {
        if (counts[join ? p : p + 1] < (join ? 2u : 1u)) continue;
        Counts next = counts;
        next[p] = join ? next[p] - 2 : next[p] + 2;
        next[p + 1] = join ? next[p + 1] + 1 : next[p + 1] - 1;
        try_counts(std::move(next));
      }
    }
  }
  return best;
}

}  // namespace slimpack
