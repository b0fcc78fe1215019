#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"

// Units that nothing uses for a while. Times are places in the order of a stage's tasks.
namespace slimpack::kernels::cuda {

/// Consecutive units.
struct UnitRun {
  std::size_t begin = 0, count = 0;

  friend bool operator==(const UnitRun&, const UnitRun&) = default;
};

/// Which units are taken by what lies in one piece: each run is taken from the lowest gap that it fits in.
/// Bookkeeping alone; the units' memory may be a GPU's.
class UnitSpace {
 public:
  /// Where units begin that lie in one piece. O(gaps).
  [[nodiscard]] std::size_t take_run(std::size_t count) {
    if (count == 0) return 0;
    auto gap = gaps_.begin();
    while (gap->second - gap->first < count) ++gap;  // the last one is large enough
    const auto [begin, end] = *gap;
    gaps_.erase(gap);
    if (begin + count < end) gaps_.emplace(begin + count, end);
    run_end_ = std::max(run_end_, begin + count);
    return begin;
  }

  /// Units that were taken, in any parts. @throws InvalidInput if one was not. O(log gaps).
  void give_back(std::size_t begin, std::size_t count) {
    if (count == 0) return;
    std::size_t end = begin + count;
    auto next = gaps_.lower_bound(begin);
    const auto before = next == gaps_.begin() ? gaps_.end() : std::prev(next);
    require((next == gaps_.end() || end <= next->first) && (before == gaps_.end() || before->second <= begin),
            "units ", begin, " to ", end, " are given back; expected units that are taken");
    if (next != gaps_.end() && next->first == end) {
      end = next->second;
      gaps_.erase(next);
    }
    if (before != gaps_.end() && before->second == begin) {
      before->second = end;
    } else {
      gaps_.emplace(begin, end);
    }
  }

  /// End of the highest run that was ever taken.
  [[nodiscard]] std::size_t run_end() const { return run_end_; }

 private:
  std::map<std::size_t, std::size_t> gaps_{
      {0, std::numeric_limits<std::size_t>::max()}};  ///< begin to end; none touches another
  std::size_t run_end_ = 0;
};

/// A time after a step's last task.
inline constexpr std::size_t forever = std::numeric_limits<std::size_t>::max();

/// Units that are idle from a time on, until before another.
struct IdleUnits {
  std::size_t begin = 0, end = 0;
  std::size_t from = 0, until = forever;
};

/// Notes when units are in use, and so when they are idle: what runs leave free for pages. Units are idle
/// until they are used first.
class UnitUses {
 public:
  /// Uses idle units from a time on. @param time none lies before one that was given earlier.
  /// @throws InvalidInput if a unit is in use. O(log n + parts that were left at different times).
  void use(std::size_t begin, std::size_t end, std::size_t time) {
    if (begin == end) return;
    auto part = idle_.upper_bound(begin);
    const bool is_idle = part != idle_.begin() && std::prev(part)->second.end > begin;
    require(is_idle, "unit ", begin, " is used from time ", time, " on; expected one that is idle");
    --part;
    if (part->first < begin) {
      const Part whole = part->second;
      part->second.end = begin;
      part = idle_.emplace_hint(std::next(part), begin, whole);
    }
    while (part != idle_.end() && part->first < end) {
      const Part whole = part->second;
      const std::size_t here = part->first, to = std::min(whole.end, end);
      if (whole.from < time) was_idle_.push_back({here, to, whole.from, time});
      part = idle_.erase(part);
      if (to < whole.end) idle_.emplace_hint(part, to, whole);
    }
  }

  /// Leaves units that were in use until before a time. O(log n).
  void leave(std::size_t begin, std::size_t end, std::size_t time) {
    if (begin < end) idle_.emplace(begin, Part{end, time});
  }

  /// All units below `units`, whenever they were idle.
  [[nodiscard]] std::vector<IdleUnits> idle(std::size_t units) const {
    std::vector<IdleUnits> out = was_idle_;
    for (const auto& [begin, part] : idle_) {
      if (begin < units) out.push_back({begin, std::min(part.end, units), part.from, forever});
    }
    return out;
  }

 private:
  struct Part {
    std::size_t end, from;
  };

  std::map<std::size_t, Part> idle_{{0, {forever, 0}}};  ///< by begin
  std::vector<IdleUnits> was_idle_;
};

/// Assigns units that are idle long enough, and after them as many more as are missing. Who takes units says
/// until when, so that those are taken which are idle the shortest time beyond it: longer ones are left for
/// who needs them.
class IdleSpace {
 public:
  /// @param units of which some are in use at times @param idle when they are not @param times of the step
  IdleSpace(std::size_t units, const std::vector<IdleUnits>& idle, std::size_t times)
      : units_(units), first_(times, none) {
    for (const IdleUnits& part : idle) come(part);
  }

  /// Goes on to a time, not before the one it is at: to the first one to begin with. O(n log n) for what
  /// becomes free.
  void go_to(std::size_t time) {
    for (; next_ <= time && next_ < first_.size(); ++next_) {
      for (std::size_t i = first_[next_]; i != none; i = coming_[i].next) {
        const IdleUnits& part = coming_[i].part;
        if (part.until > time) add(part.begin, part.end, part.until);
      }
    }
    while (!by_time_.empty() && by_time_.begin()->first <= time) {
      free_.erase(by_time_.begin()->second);
      by_time_.erase(by_time_.begin());
    }
  }

  /// Takes units anywhere until before a time, appended in few runs. O(runs log parts).
  void take_pages(std::size_t count, std::size_t until, std::vector<UnitRun>& out) {
    auto tightest = by_time_.lower_bound({until, 0});
    while (count > 0 && tightest != by_time_.end()) {
      const auto part = free_.find(tightest->second);
      const auto [end, idle_until] = part->second;
      const std::size_t size = std::min(count, end - part->first), begin = end - size;
      if (begin == part->first) {
        free_.erase(part);
        tightest = by_time_.erase(tightest);
      } else {
        part->second.end = begin;
      }
      hold(begin, end, until, idle_until, out);
      count -= size;
    }
    if (count == 0) return;
    units_ += count;
    hold(units_ - count, units_, until, forever, out);
  }

  /// Takes one or more of some pieces of equal size, consecutively, until before a time: where `wanted` is,
  /// if one is idle there. @param units of a piece, an even number if there are several @param pieces at
  /// least 1
  /// @returns of those that were taken, beginning at an even number. O(parts).
  [[nodiscard]] UnitRun take_pieces(std::size_t units, std::size_t pieces, std::size_t until,
                                    std::optional<std::size_t> wanted = std::nullopt) {
    const bool as_wanted = wanted && *wanted % 2 == 0 && idle_from(*wanted, units, until) == units;
    std::size_t begin = as_wanted ? *wanted : find_piece(units, until);
    if (begin == none) begin = grow(units * pieces, until);  // the others find nothing else either
    const std::size_t count = idle_from(begin, units * pieces, until) / units * units;
    for (std::size_t at = begin; at < begin + count;) {
      const auto part = std::prev(free_.upper_bound(at));
      const auto [part_begin, whole] = *part;
      const std::size_t to = std::min(whole.end, begin + count);
      remove(part);
      if (part_begin < at) insert(part_begin, at, whole.until);
      if (to < whole.end) insert(to, whole.end, whole.until);
      come({at, to, until, whole.until});
      at = to;
    }
    return {begin, count};
  }

  /// Units in all.
  [[nodiscard]] std::size_t units() const { return units_; }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  struct Part {
    std::size_t end, until;
  };
  struct Coming {
    IdleUnits part;
    std::size_t next;  ///< of the same time
  };

  /// Units become idle at their time, if it is one of the step.
  void come(const IdleUnits& part) {
    if (part.from >= first_.size()) return;
    coming_.push_back({part, first_[part.from]});
    first_[part.from] = coming_.size() - 1;
  }

  void hold(std::size_t begin, std::size_t end, std::size_t until, std::size_t idle_until,
            std::vector<UnitRun>& out) {
    come({begin, end, until, idle_until});
    out.push_back({begin, end - begin});
  }

  using Parts = std::map<std::size_t, Part>;

  void insert(std::size_t begin, std::size_t end, std::size_t until) {
    free_.emplace(begin, Part{end, until});
    by_time_.emplace(until, begin);
  }
  void remove(Parts::iterator part) {
    by_time_.erase({part->second.until, part->first});
    free_.erase(part);
  }

  /// Makes one of parts that touch and are idle equally long.
  void add(std::size_t begin, std::size_t end, std::size_t until) {
    const auto next = free_.lower_bound(begin);
    if (next != free_.end() && next->first == end && next->second.until == until) {
      end = next->second.end;
      remove(next);
    }
    const auto after = free_.lower_bound(begin);
    if (after != free_.begin()) {
      Part& before = std::prev(after)->second;
      if (before.end == begin && before.until == until) {
        before.end = end;
        return;
      }
    }
    insert(begin, end, until);
  }

  /// Units from `begin` on that are idle until a time, at most `most`.
  [[nodiscard]] std::size_t idle_from(std::size_t begin, std::size_t most, std::size_t until) const {
    auto part = free_.upper_bound(begin);
    if (part == free_.begin()) return 0;
    std::size_t at = begin;
    for (--part; part != free_.end() && part->first <= at && part->second.end > at; ++part) {
      if (part->second.until < until) break;
      at = std::min(part->second.end, begin + most);
      if (at == begin + most) break;
    }
    return at - begin;
  }

  /// Where a piece fits whose units are idle least beyond the time; `none` if nowhere.
  [[nodiscard]] std::size_t find_piece(std::size_t count, std::size_t until) const {
    std::size_t best = none, best_until = forever, begin = none, end = 0, longest = 0;
    const auto consider = [&] {
      if (begin == none || end < begin + count || (best != none && longest >= best_until)) return;
      best = begin;
      best_until = longest;
    };
    for (const auto& [part_begin, part] : free_) {
      const std::size_t even = part_begin + part_begin % 2;
      if (part.until < until) {
        begin = none;
        continue;
      }
      if (begin == none || part_begin != end) begin = even, longest = 0;
      end = part.end;
      longest = std::max(longest, part.until);
      consider();
      if (end < begin + count) continue;
      // What fits reaches into this part: another may begin with it.
      begin = std::max(begin, even), longest = part.until;
      consider();
    }
    return best;
  }

  /// Units after all others, with those before them that are idle. @returns where a piece fits.
  std::size_t grow(std::size_t count, std::size_t until) {
    std::size_t begin = units_;
    for (auto part = free_.end(); part != free_.begin();) {
      --part;
      if (part->second.end != begin || part->second.until < until) break;
      begin = part->first;
    }
    begin += begin % 2;
    if (begin + count > units_) {
      const std::size_t end = units_;
      units_ = begin + count;
      add(end, units_, forever);
    }
    return begin;
  }

  std::size_t units_, next_ = 0;                           ///< `next_`: times below it have come
  std::vector<std::size_t> first_;                         ///< [time] of `coming_`
  std::vector<Coming> coming_;                             ///< what becomes free when
  Parts free_;                                             ///< at the time, by begin
  std::set<std::pair<std::size_t, std::size_t>> by_time_;  ///< the same: until, begin
};

}  // namespace slimpack::kernels::cuda
