#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/rank_rows.hpp"

namespace slimpack::detail {

/// Moves and exchanges of samples between groups that leave the busiest group less work.
class GroupExchanges {
 public:
  using Group = OpenRow::Group;

  /// @param domain has to outlive this. @param limit tokens of each rank. @param samples that groups may have,
  /// longest first. O(samples * sizes^2).
  GroupExchanges(const RankDomain& domain, double limit, std::span<const SampleId> samples)
      : domain_(&domain), limit_(limit) {
    find_least_shares(samples);
  }

  /// @pre there is a group.
  [[nodiscard]] static Group& busiest(std::vector<Group>& groups) {
    const auto less_work = [](const Group& a, const Group& b) { return a.work < b.work; };
    return *std::max_element(groups.begin(), groups.end(), less_work);
  }

  /// Lets the busiest group give a sample away, or exchange one, if that makes it less busy and no other as busy.
  /// @pre groups have their samples longest first. @returns whether it did.
  bool improve(std::vector<Group>& groups) {
    Group& from = busiest(groups);
    Exchange best{.worse = from.work * (1.0 - 1e-9)};
    partners_.clear();
    for (Group& to : groups) {
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

  /// Whatever they exchange, one of both has at least this much work then: what leaves `from` adds the least share of it to `to`.
  [[nodiscard]] double least_after_exchange(const Group& from, const Group& to) const {
    const double share = least_share_[from.place * domain_->sizes() + to.place];
    return (share * from.work + to.work) / (share + 1.0) * (1.0 - 1e-9);
  }

  /// Finds, for each pair of sizes, how much more work a longer sample is in a group of the other size for each unit
  /// that it is more in one of its own. O(samples * sizes^2).
  void find_least_shares(std::span<const SampleId> samples) {
    const std::size_t sizes = domain_->sizes();
    least_share_.assign(sizes * sizes, infinite);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto more = [&](std::size_t place) {
        return domain_->work(samples[i], place) -
               (i + 1 < samples.size() ? domain_->work(samples[i + 1], place) : 0.0);
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

  /// What is given by falling length meets its best counterpart by
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
  double limit_;
  std::vector<double> least_share_;                  // [place * sizes + place of the other]
  std::vector<std::pair<double, Group*>> partners_;  // of the busiest, by the least work that is left
};

}  // namespace slimpack::detail
