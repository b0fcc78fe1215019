#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/few_samples_on_groups.hpp"
#include "slimpack/partition/rank_rows.hpp"

namespace slimpack {

/// A row of groups, and the work of its busiest rank; infinite if there is none.
struct FlexibleRow {
  RankRow row = {};
  double work = std::numeric_limits<double>::infinity();
};

namespace detail {

/// Samples on groups of some sizes, largest first, so that the busiest group has little work: longest samples first,
/// each where it ends earliest, then moves and exchanges of samples of the busiest group. Of few samples, other
/// distributions are tried as well.
class SizedGroups {
 public:
  using Group = OpenRow::Group;

  /// @param domain has to outlive this. @param limit tokens of each rank. @param samples to distribute, longest first.
  SizedGroups(const RankDomain& domain, Tokens limit, std::span<const SampleId> samples)
      : domain_(&domain), samples_(samples), limit_(static_cast<double>(limit)), few_(domain, limit_) {
    find_least_shares();
  }

  /// Distributes the samples. @param counts groups of each size.
  /// @returns the work of the busiest group; infinite if samples don't fit so.
  double operator()(std::span<const std::uint32_t> counts) {
    open(counts);
    for (const SampleId id : samples_) {
      if (!add_where_it_ends_first(id)) return infinite;
    }
    for (std::size_t round = 0; round < 2 * groups_.size() + 8 && improve(); ++round) continue;
    if (samples_.size() <= FewSamplesOnGroups::most_samples) few_.improve(samples_, groups_);
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
    std::size_t at = none, end = none;
    double least = infinite;
    for (std::size_t c = 0; c + 1 < class_begins_.size(); ++c) {
      const std::size_t place = groups_[class_begins_[c]].place;
      const double own = domain_->work(id, place);
      for (std::size_t i = class_begins_[c]; i < class_begins_[c + 1]; ++i) {
        const Group& group = groups_[by_work_[i]];
        if (group.work + own >= least) break;
        if (!fits(group, id)) continue;
        least = group.work + own;
        at = i;
        end = class_begins_[c + 1];
        break;
      }
    }
    if (at == none) return false;
    const std::uint32_t g = by_work_[at];
    groups_[g].work = least;
    groups_[g].tokens += tokens(groups_[g], id);
    groups_[g].samples.push_back(id);
    for (; at + 1 < end && groups_[by_work_[at + 1]].work < least; ++at) by_work_[at] = by_work_[at + 1];
    by_work_[at] = g;
    return true;
  }

  static bool less_work(const Group& a, const Group& b) { return a.work < b.work; }
  [[nodiscard]] Group& busiest() { return *std::max_element(groups_.begin(), groups_.end(), less_work); }
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
    const auto shorter = [&](Tokens length, SampleId other) { return domain_->length(other) < length; };
    group.samples.insert(
        std::upper_bound(group.samples.begin(), group.samples.end(), domain_->length(id), shorter), id);
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
    partners_.clear();
    for (Group& to : groups_) {
      const double least = least_after_exchange(from, to);
      if (&to != &from && least < best.worse) partners_.push_back({least, &to});
    }
    std::sort(partners_.begin(), partners_.end());
    for (const auto& [least, to] : partners_) {
      if (least > best.worse) break;
      // Of equally good ones, that with the first group.
      Exchange own{.worse = to < best.other ? std::nextafter(best.worse, infinite) : best.worse};
      look_for_exchange(from, *to, own);
      if (own.other != nullptr) best = own;
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

  /// Whatever they exchange, one of both has at least this much work then: what leaves `from` adds the least share of it to `to`.
  [[nodiscard]] double least_after_exchange(const Group& from, const Group& to) const {
    const double share = least_share_[from.place * domain_->sizes() + to.place];
    return (share * from.work + to.work) / (share + 1.0) * (1.0 - 1e-9);
  }

  /// Finds, for each pair of sizes, how much more work a longer sample is in a group of the other size for each unit
  /// that it is more in one of its own. O(samples * sizes^2).
  void find_least_shares() {
    const std::size_t sizes = domain_->sizes();
    least_share_.assign(sizes * sizes, infinite);
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const auto more = [&](std::size_t place) {
        return domain_->work(samples_[i], place) -
               (i + 1 < samples_.size() ? domain_->work(samples_[i + 1], place) : 0.0);
      };
      for (std::size_t from = 0; from < sizes; ++from) {
        const double own = more(from);
        for (std::size_t to = 0; own != 0.0 && to < sizes; ++to) {
          double& least = least_share_[from * sizes + to];
          least = std::min(least, own > 0.0 ? std::max(0.0, more(to) / own) : 0.0);
        }
      }
    }
  }

  /// Both groups have their samples longest first. What is given by falling length meets its best counterpart by
  /// falling length as well, so that one walk through both finds the best exchange. O(samples of both) unless the limit
  /// of tokens is in the way.
  void look_for_exchange(const Group& from, Group& to, Exchange& best) const {
    const std::span<const SampleId> own = from.samples, others = to.samples;
    const bool to_has_room = fits(to, own.front()),
               from_has_room = others.empty() || fits(from, others.front());
    std::size_t even = 0;  // before it, what is taken leaves more work with `from` than with `to`
    for (std::size_t i = 0; i < own.size(); ++i) {
      const double left = from.work - work(from, own[i]), filled = to.work + work(to, own[i]);
      if (left >= best.worse) return;
      if (filled < best.worse && (to_has_room || fits(to, own[i])))
        best = {&to, i, none, std::max(left, filled)};
      const auto leaves_room = [&](SampleId taken) {
        return to_has_room || fits(to, own[i], tokens(to, taken));
      };
      const auto has_room = [&](SampleId taken) {
        return from_has_room || fits(from, taken, tokens(from, own[i]));
      };
      const auto from_work = [&](std::size_t j) { return left + work(from, others[j]); };
      const auto to_work = [&](std::size_t j) { return filled - work(to, others[j]); };
      while (even < others.size() && from_work(even) > to_work(even)) ++even;
      for (std::size_t j = even; j < others.size() && leaves_room(others[j]); ++j) {
        const double worse = to_work(j);
        if (worse < best.worse && !has_room(others[j])) continue;
        if (worse < best.worse) best = {&to, i, j, worse};
        break;
      }
      for (std::size_t j = even; j-- > 0 && has_room(others[j]);) {
        const double worse = from_work(j);
        if (worse < best.worse && !leaves_room(others[j])) continue;
        if (worse < best.worse) best = {&to, i, j, worse};
        break;
      }
    }
  }

  const RankDomain* domain_;
  std::span<const SampleId> samples_;
  double limit_;
  FewSamplesOnGroups few_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> by_work_;     // places of groups: those of each size by rising work
  std::vector<std::size_t> class_begins_;  // of the sizes among the groups, and the end
  std::vector<double> least_share_;        // [place * sizes + place of the other]
  std::vector<std::pair<double, Group*>>
      partners_;  // of the busiest, and the least work that exchanges leave
};

}  // namespace detail

/// What a sample takes at least in groups whose ranks hold it.
struct LeastSampleWork {
  double all = std::numeric_limits<double>::infinity();   ///< ranks together
  double each = std::numeric_limits<double>::infinity();  ///< of them
};

/// @param limit tokens of each rank. O(sizes).
[[nodiscard]] inline LeastSampleWork least_sample_work(const RankDomain& domain, Tokens limit, SampleId id) {
  LeastSampleWork least;
  for (std::size_t place = domain.least_place(id, limit); place < domain.sizes(); ++place) {
    const double work = domain.work(id, place);
    least.each = std::min(least.each, work);
    least.all = std::min(least.all, work * static_cast<double>(domain.size(place)));
  }
  return least;
}

/// No groups of the ranks run samples with less work of the busiest rank: they don't where each sample is shared by as
/// few ranks as can hold it, or by those that have least of it. O(samples).
[[nodiscard]] inline double least_group_work(const RankDomain& domain,
                                             std::span<const LeastSampleWork> samples) {
  double all = 0.0, most = 0.0;
  for (const LeastSampleWork& sample : samples) {
    all += sample.all;
    most = std::max(most, sample.each);
  }
  return std::max(most, all / static_cast<double>(domain.ranks()));
}

/// The same for samples of a domain, with at most `limit` tokens of each rank. O(samples * sizes).
[[nodiscard]] inline double least_group_work(const RankDomain& domain, Tokens limit,
                                             std::span<const SampleId> samples) {
  std::vector<LeastSampleWork> least;
  least.reserve(samples.size());
  for (const SampleId id : samples) least.push_back(least_sample_work(domain, limit, id));
  return least_group_work(domain, least);
}

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
  const double enough = least_group_work(domain, limit, samples) * (1.0 + 1e-9);
  detail::SizedGroups groups(domain, limit, samples);
  std::set<Trial> open;
  std::set<Counts> known;
  FlexibleRow best;
  const auto try_counts = [&](Counts counts) {
    if (best.work <= enough || known.size() >= trials || !known.insert(counts).second) return;
    const double work = groups(counts);
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
  while (!open.empty() && best.work > enough && known.size() < trials) {
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
