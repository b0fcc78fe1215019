#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/rank_rows.hpp"

namespace slimpack {

namespace detail {

/// One row of `packed_rank_rows`.
class PackedRankRow {
 public:
  /// @param longest sample of those that are left.
  PackedRankRow(const RankDomain& domain, Tokens limit, SampleId longest)
      : domain_(domain), limit_(limit), row_(domain), kinds_(domain.sizes()) {
    put({.place = domain.least_place(longest, limit)}, longest);
  }

  /// Puts a sample where the busiest rank then has least work. @returns whether there is room for it.
  bool place(SampleId id) {
    Choice best;
    for (std::size_t place = domain_.least_place(id, limit_); place < domain_.sizes(); ++place)
      look_at(id, place, best);
    const bool found = best.busiest < std::numeric_limits<double>::infinity();
    if (found) put(best, id);
    return found;
  }

  /// Tokens of the longest sample that still finds a place, about: no shorter one is turned away.
  [[nodiscard]] double most_tokens() const {
    if (row_.free_ranks() >= domain_.size(0)) return std::numeric_limits<double>::infinity();
    double most = 0.0;
    for (std::size_t place = 0; place < kinds_.size(); ++place) {
      if (kinds_[place].groups.empty()) continue;
      const double room = static_cast<double>(limit_) - kinds_[place].least_tokens;
      most = std::max(most, room * static_cast<double>(domain_.size(place)));
    }
    return most;
  }

  [[nodiscard]] OpenRow& row() { return row_; }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  struct Choice {
    std::size_t place = 0;
    std::size_t group = none;  ///< none: a new one
    double busiest = std::numeric_limits<double>::infinity();
  };

  /// Groups of one size, and the least that any of them has.
  struct Kind {
    std::vector<std::size_t> groups = {};
    double least_work = 0.0, least_tokens = 0.0;
  };

  /// Looks at the groups of one size and at a new one. Of equally good ones the first counts.
  void look_at(SampleId id, std::size_t place, Choice& best) const {
    const double work = domain_.work(id, place), tokens = domain_.tokens_per_rank(id, place);
    const auto consider = [&](std::size_t group, double own_work, double own_tokens) {
      if (own_tokens + tokens > static_cast<double>(limit_)) return false;
      const double busiest = std::max(busiest_, own_work + work);
      if (busiest >= best.busiest) return false;
      best = {place, group, busiest};
      return true;
    };
    const Kind& kind = kinds_[place];
    const Choice before = best;
    if (!kind.groups.empty() && consider(none, kind.least_work, kind.least_tokens)) {
      best = before;
      for (const std::size_t g : kind.groups) consider(g, row_.groups()[g].work, row_.groups()[g].tokens);
    }
    if (row_.free_ranks() >= domain_.size(place)) consider(none, 0.0, 0.0);
  }

  void put(const Choice& choice, SampleId id) {
    Kind& kind = kinds_[choice.place];
    std::size_t g = choice.group;
    if (g == none) {
      g = row_.groups().size();
      row_.open(choice.place, id);
      kind.groups.push_back(g);
    } else {
      row_.add(g, id);
    }
    busiest_ = std::max(busiest_, row_.groups()[g].work);
    kind.least_work = kind.least_tokens = std::numeric_limits<double>::infinity();
    for (const std::size_t own : kind.groups) {
      kind.least_work = std::min(kind.least_work, row_.groups()[own].work);
      kind.least_tokens = std::min(kind.least_tokens, row_.groups()[own].tokens);
    }
  }

  const RankDomain& domain_;
  Tokens limit_;
  OpenRow row_;
  std::vector<Kind> kinds_;  // [place of a size]
  double busiest_ = 0.0;     // work of the busiest rank
};

}  // namespace detail

/// Rows of packs of whole samples, one pack for each group of ranks, as the default scheduler of Megatron Core's
/// dynamic context parallelism makes them (`DefaultDynamicCPScheduler`; docs/dynamic-cp.md names the commit). A row
/// begins with the longest sample that is left, on the smallest group on which no rank holds more than `limit` tokens
/// of it. The others follow, longest first, each to the group, there already or new, and at least as large as that
/// sample needs, after which the row's busiest rank has least work; but no rank gets more than `limit` tokens. (Theirs
/// also limits a rank's work, to that of `limit` tokens of samples as long as the first. As no sample of the row is
/// longer, the limit of tokens implies it.) What finds no place waits for the next row. At last, ranks without work go
/// to the smallest groups.
/// @param domain its work decides; with `squared_tokens` as theirs does. @param limit tokens of a pack on each rank.
/// @throws InvalidInput if the largest group can't hold a sample. Complexity: O(rows * samples + samples * (ranks +
/// sizes)).
[[nodiscard]] inline std::vector<RankRow> packed_rank_rows(const RankDomain& domain, Tokens limit) {
  detail::require_room(domain, limit);
  std::vector<SampleId> left = detail::longest_first(domain), rest;
  std::vector<RankRow> rows;
  while (!left.empty()) {
    detail::PackedRankRow next(domain, limit, left.front());
    rest.clear();
    for (std::size_t i = 1; i < left.size(); ++i) {
      const double most = next.most_tokens() + 1.0;
      for (; i < left.size() && static_cast<double>(domain.length(left[i])) > most; ++i)
        rest.push_back(left[i]);
      if (i < left.size() && !next.place(left[i])) rest.push_back(left[i]);
    }
    rows.push_back(detail::close_row(domain, limit, left, next.row(), rest));
    std::swap(left, rest);
  }
  return rows;
}

}  // namespace slimpack
