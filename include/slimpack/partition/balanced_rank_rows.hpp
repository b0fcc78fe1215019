#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/rank_rows.hpp"

namespace slimpack {

namespace detail {

/// One row of `balanced_rank_rows`.
class BalancedRankRow {
 public:
  /// @param place [sample] of the size of its group. @param samples that are left. All have to outlive this.
  BalancedRankRow(const RankDomain& domain, Tokens limit, bool packed, std::span<const std::size_t> place,
                  std::span<const SampleId> samples)
      : domain_(domain), limit_(limit), packed_(packed), place_(place), samples_(samples), row_(domain) {
    make_buckets();
  }

  /// Fills the row. @returns the samples that are left, in the order in which the next row takes them.
  std::vector<SampleId> fill() {
    std::optional<std::size_t> first_place;
    bool smaller = false;
    for (Bucket* bucket = next_bucket(); bucket != nullptr; bucket = next_bucket()) {
      const SampleId id = samples_[bucket->next];
      const std::size_t place = place_[id];
      if (!put(id, place)) break;
      ++bucket->next;
      if (!first_place) first_place = place;
      smaller = smaller || place < *first_place;
      if (smaller && balanced()) break;
    }
    std::vector<SampleId> left;
    for (const Bucket& bucket : buckets_) {
      for (std::size_t i = bucket.next; i < bucket.end; ++i) left.push_back(samples_[i]);
    }
    if (!packed_) trim(left);
    return left;
  }

  [[nodiscard]] OpenRow& row() { return row_; }

 private:
  /// By how much of the busiest rank's work the ranks of a balanced row may differ.
  static constexpr double slack = 0.05;
  /// By how much a bucket may exceed its share of the work.
  static constexpr double bucket_slack = 0.1;

  /// Neighbours in the list of samples: those from `next` to `end` are left.
  struct Bucket {
    std::size_t next, end;
  };

  [[nodiscard]] double work(SampleId id) const { return domain_.work(id, place_[id]); }

  /// Cuts the list of samples into buckets of about equal work, as many as there are sizes of groups that samples need.
  void make_buckets() {
    std::vector<char> needed(domain_.sizes(), 0);
    double sum = 0.0;
    for (const SampleId id : samples_) {
      needed[place_[id]] = 1;
      sum += work(id);
    }
    auto open = std::count(needed.begin(), needed.end(), 1);  // buckets, counted down twice as theirs are
    const double most = sum / static_cast<double>(open) * (1.0 + bucket_slack);
    double own = 0.0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const double next = work(samples_[i]);
      const auto left = static_cast<std::ptrdiff_t>(samples_.size() - i);
      if (i > begin && (own + next > most || left <= open - static_cast<std::ptrdiff_t>(buckets_.size()))) {
        buckets_.push_back({begin, i});
        begin = i;
        own = 0.0;
        --open;
      }
      own += next;
    }
    if (begin < samples_.size()) buckets_.push_back({begin, samples_.size()});
  }

  /// The first bucket whose next sample finds a group of its size, or enough free ranks for one; null if there is none.
  [[nodiscard]] Bucket* next_bucket() {
    for (Bucket& bucket : buckets_) {
      if (bucket.next == bucket.end) continue;
      const std::size_t place = place_[samples_[bucket.next]];
      const auto alike = [&](const OpenRow::Group& group) { return group.place == place; };
      if (row_.free_ranks() >= domain_.size(place) ||
          std::any_of(row_.groups().begin(), row_.groups().end(), alike))
        return &bucket;
    }
    return nullptr;
  }

  /// Puts a sample on free ranks, or else on the group of its size with the least work. @returns false if all are full.
  bool put(SampleId id, std::size_t place) {
    if (row_.free_ranks() >= domain_.size(place)) {
      row_.open(place, id);
      return true;
    }
    std::optional<std::size_t> best;
    for (std::size_t g = 0; g < row_.groups().size(); ++g) {
      const OpenRow::Group& group = row_.groups()[g];
      const bool full =
          packed_ && group.tokens + domain_.tokens_per_rank(id, place) > static_cast<double>(limit_);
      if (group.place == place && !full && (!best || group.work < row_.groups()[*best].work)) best = g;
    }
    if (best) row_.add(*best, id);
    return best.has_value();
  }

  [[nodiscard]] bool balanced() const {
    const double most = row_.most_work();
    return most - row_.least_work() <= slack * most;
  }

  /// Takes the last sample out of the busiest group as long as that makes ranks more equal.
  void trim(std::vector<SampleId>& left) {
    while (!balanced() && row_.free_ranks() == 0) {
      const auto groups = row_.groups();
      const auto busiest = std::max_element(groups.begin(), groups.end(),
                                            [](const auto& a, const auto& b) { return a.work < b.work; });
      const auto g = static_cast<std::size_t>(busiest - groups.begin());
      if (busiest->samples.size() <= 1) return;
      const double before = row_.most_work() - row_.least_work();
      const SampleId id = row_.take_last(g);
      if (row_.most_work() - row_.least_work() >= before) {
        row_.add(g, id);
        return;
      }
      left.push_back(id);
    }
  }

  const RankDomain& domain_;
  Tokens limit_;
  bool packed_;
  std::span<const std::size_t> place_;
  std::span<const SampleId> samples_;
  std::vector<Bucket> buckets_;
  OpenRow row_;
};

}  // namespace detail

/// Rows of whole samples, as the balanced scheduler of Megatron Core's hybrid context parallelism makes them
/// (`BalancedCPScheduler`; docs/dynamic-cp.md names the commits). Each sample runs on the smallest group on which no
/// rank holds more than `limit` tokens of it. Samples are looked at longest first, and in buckets of equal work, so
/// that a row also gets short ones; each opens a group of free ranks, or joins the group of its size that has least
/// work. A row ends when its ranks are balanced, or no sample finds a place. Samples that make it less balanced are
/// taken out again, and ranks without work go to the smallest groups.
/// @param domain its work decides; with `squared_tokens` as theirs does. @param limit tokens of a sample on each rank.
/// @param packed the samples of a group are one pack, and `limit` is for the pack (pull request 5191); otherwise they
/// run one by one.
/// @throws InvalidInput if the largest group can't hold a sample.
/// Complexity: O(rows * samples + samples * ranks).
[[nodiscard]] inline std::vector<RankRow> balanced_rank_rows(const RankDomain& domain, Tokens limit,
                                                             bool packed) {
  detail::require_room(domain, limit);
  std::vector<SampleId> left = detail::longest_first(domain);
  std::vector<std::size_t> place(domain.samples());
  for (SampleId id = 0; id < place.size(); ++id) place[id] = domain.least_place(id, limit);
  std::vector<RankRow> rows;
  while (!left.empty()) {
    detail::BalancedRankRow next(domain, limit, packed, place, left);
    std::vector<SampleId> rest = next.fill();
    rows.push_back(detail::close_row(domain, limit, left, next.row(), rest));
    left = std::move(rest);
  }
  return rows;
}

}  // namespace slimpack
