#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/planners/slimpack_options.hpp"
#include "slimpack/schedule/group_scheduler.hpp"

namespace slimpack {

/// Finds the number of packs with which a group has the shortest schedule (SlimPack, section 5.1). Keeps its memory
/// between calls.
class GroupSearch {
 public:
  /// @param groups has to outlive this.
  explicit GroupSearch(GroupScheduler& groups, const SlimPackSearch& options = {})
      : groups_(groups), most_doublings_(options.most_doublings) {}

  /// Chooses the group that later calls are about. O(samples).
  void load(const SampleGroup& group) { groups_.load(group); }
  [[nodiscard]] GroupScheduler::Options& options() { return groups_.options(); }
  /// Spends so much time on each candidate from now on.
  void use(Care care) { care_ = care; }
  [[nodiscard]] Care care() const { return care_; }
  /// Of the loaded group.
  [[nodiscard]] const GroupWork& work() const { return groups_.work(); }

  /// What came of a number of packs.
  enum class Trial : std::uint8_t {
    better,    ///< it replaces the best
    too_long,  ///< it takes as long as the best or longer, and memory is not why
    limited,   ///< memory keeps it from being better, or it was not tried
  };

  /// Tries about `count` packs; where memory binds, with the boundaries of the forward packs as well. If that is better
  /// than `best`, it replaces `best`.
  Trial try_count(std::size_t count, GroupPlan& best) {
    if (groups_.least_seconds(count) >= best.schedule.seconds) return Trial::too_long;
    if (groups_.work().limited_seconds() >= best.schedule.seconds) return Trial::limited;
    const double before = best.schedule.seconds;
    bool memory_bound = true;
    using enum BackwardPacks;
    for (const BackwardPacks backward : {own, mirrored}) {
      if (!memory_bound) break;
      const GroupCut cut = groups_.options().cut(count, backward);
      memory_bound = groups_.improve_with(groups_.of_one_member(cut), best, care_);
    }
    if (best.schedule.seconds < before) return Trial::better;
    return memory_bound ? Trial::limited : Trial::too_long;
  }

  /// Tries a multiple of the promising number of packs, or the number that was given.
  Trial try_relative(double packs, GroupPlan& best) {
    if (groups_.options().packs > 0) return try_count(groups_.options().packs, best);
    const double count = std::max(1.0, std::round(packs * static_cast<double>(groups_.promising())));
    return try_count(static_cast<std::size_t>(count), best);
  }

  /// Looks for a better number of packs than `best` has; if `best` does not fit, for any that does first.
  /// @param enough the search ends with a schedule that takes no more seconds than this.
  void search(double enough, GroupPlan& best) {
    if (groups_.options().packs > 0) {
      try_count(groups_.options().packs, best);
      return;
    }
    tried_.assign(1, best.cut.packs);
    if (!best.schedule.fits()) begin(enough, best);
    if (best.schedule.fits()) climb(enough, best);
  }

 private:
  /// Tries a number of packs unless `best` takes no more than `enough` seconds, or the search has tried the number before.
  Trial try_near(double wanted, double enough, GroupPlan& best) {
    if (wanted < 1.0 ||
        wanted > static_cast<double>(std::max<std::size_t>(1, groups_.work().pieces(groups_.options().tile))))
      return Trial::too_long;
    const auto count = static_cast<std::size_t>(std::round(wanted));
    const bool known = std::find(tried_.begin(), tried_.end(), count) != tried_.end();
    if (known || best.schedule.seconds <= enough) return Trial::limited;
    tried_.push_back(count);
    return try_count(count, best);
  }

  /// Tries a promising number of packs and one pack for each sample. Where memory limits both, it tries halves, then doubles,
  /// until one takes too long though memory does not limit it.
  void begin(double enough, GroupPlan& best) {
    const auto start = static_cast<double>(groups_.promising());
    try_near(start, enough, best);
    try_near(static_cast<double>(groups_.work().samples()), enough, best);
    if (best.schedule.fits() && !best.schedule.memory_bound) return;
    for (const double factor : {0.5, 2.0}) {
      double packs = start;
      for (int i = 0; i < most_doublings_; ++i) {
        packs *= factor;
        if (try_near(packs, enough, best) == Trial::too_long && best.schedule.fits()) break;
      }
    }
  }

  /// Climbs from the number of packs that `best` has: by a factor of the square root of two as long as that helps, then by
  /// that factor's root.
  void climb(double enough, GroupPlan& best) {
    for (const double step : {0.5, 0.25}) {
      for (const double direction : {1.0, -1.0}) {
        const std::size_t middle = best.cut.packs;
        while (try_near(static_cast<double>(best.cut.packs) * std::exp2(direction * step), enough, best) ==
               Trial::better) {
        }
        if (best.cut.packs != middle) break;
      }
    }
  }

  GroupScheduler& groups_;
  int most_doublings_;
  Care care_ = Care::full;
  std::vector<std::size_t> tried_;  // numbers of packs, by the search that runs
};

}  // namespace slimpack
