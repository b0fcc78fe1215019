#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/planners/group_work.hpp"
#include "slimpack/schedule/schedule.hpp"
#include "slimpack/slicing/group_cutter.hpp"

namespace slimpack {

/// A candidate for a group of pipelines: how its samples are cut, and the schedule of the packs.
struct GroupPlan {
  GroupCut cut;
  Schedule schedule;
  std::size_t promising = 0;  ///< packs that promise a short schedule (`GroupWork::promising`)
  bool estimated = false;     ///< nothing was cut; only an estimate of the schedule's seconds is known

  /// Packs as a multiple of the promising number, which suits other groups, too; 0 if nothing was cut.
  [[nodiscard]] double relative_packs() const {
    return promising > 0 ? static_cast<double>(cut.packs) / static_cast<double>(promising) : 0.0;
  }
};

/// Finds the number of packs with which a group has the shortest schedule (SlimPack, section 5.1). Keeps its memory
/// between calls.
class GroupSearch {
 public:
  struct Options {
    std::size_t packs = 0;  ///< per member and pass; 0: to be found
    Tokens tile = 128;      ///< of slice boundaries
    bool exact =
        false;  ///< the number of packs is exact on all members, in both passes; else one stands for all
  };

  /// @param lengths of all samples. @param prices, memory of the pipelines' kind. All have to outlive this.
  GroupSearch(std::span<const Tokens> lengths, GroupPrices& prices, const Memory& memory,
              const Options& options)
      : prices_(prices),
        options_(options),
        work_(lengths, prices, memory),
        cutter_(lengths),
        scheduler_(lengths, prices, memory) {}

  [[nodiscard]] Options& options() { return options_; }
  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
  /// Of the group that was loaded last.
  [[nodiscard]] const GroupWork& work() const { return work_; }

  /// Chooses the group that later calls are about. O(samples).
  void load(const SampleGroup& group) {
    members_ = group.size();
    alike_ = std::all_of(group.local.begin(), group.local.end(), [](const auto& own) { return own.empty(); });
    last_.reset();
    cutter_.load(group, prices_.alone(), prices_.shared_by(group.merged.empty() ? 1 : members_));
    work_.load(group);
  }

  /// Cuts the group in one way and schedules it. The seconds are infinite if the schedule does not fit into memory, takes
  /// `most` seconds or longer, or has too few packs of those that were asked for. @returns whether it has enough.
  bool try_cut(const GroupCut& cut, double most, GroupPlan& out) {
    out.cut = cut;
    out.promising = work_.promising(options_.tile);
    out.schedule.seconds = out.schedule.unlimited = std::numeric_limits<double>::infinity();
    out.schedule.memory_bound = out.schedule.refused = false;
    cut_packs(cut);
    if (!has_packs(cut)) return false;
    out.schedule.forward = packs_.forward;
    out.schedule.backward = packs_.backward;
    out.schedule.pipelines = cut.one_member ? 1 : members_;
    scheduler_(out.schedule, {}, most);
    return true;
  }

  /// How a candidate did, or one member of it.
  struct Verdict {
    double unlimited;   ///< seconds with enough memory; infinite if it was given up before these were known
    bool memory_bound;  ///< memory forces recomputation or a smaller lead, or refuses the packs
    bool refused;       ///< memory holds no order of the packs
  };

  /// Cuts the group in one way and schedules it; if that is faster than `best`, it replaces `best`. One member alone comes
  /// first, because with enough memory all members take at least as long. @param most a candidate is given up if it takes that long; no less
  /// than the seconds of `best`.
  Verdict improve_with(const GroupCut& cut, double most, GroupPlan& best) {
    GroupCut first = cut;
    first.one_member = members_ > 1 && !cut.exact;
    try_cut(first, most, trial_);
    const Schedule& tried = trial_.schedule;
    const Verdict verdict{tried.unlimited, tried.memory_bound, tried.refused};
    if (first != cut &&
        (alike_ ? tried.seconds : std::min(tried.seconds, tried.unlimited)) < best.schedule.seconds)
      try_cut(cut, best.schedule.seconds, trial_);
    if (trial_.schedule.seconds < best.schedule.seconds) std::swap(trial_, best);
    return verdict;
  }

  /// What came of a number of packs.
  enum class Trial : std::uint8_t {
    better,    ///< it replaces the best
    too_long,  ///< it takes as long as the best or longer, even with enough memory
    limited,   ///< memory keeps it from being better, or it was not tried
  };

  /// Tries about `count` packs; where memory binds, with both ways to cut the backward pass. If that is better than `best`,
  /// it replaces `best`.
  Trial try_count(std::size_t count, GroupPlan& best) {
    if (least_seconds(count) >= best.schedule.seconds) return Trial::too_long;
    if (work_.limited_seconds() >= best.schedule.seconds) return Trial::limited;
    const double before = best.schedule.seconds;
    bool memory_bound = true;
    for (const bool asymmetric : {true, false}) {
      if (!memory_bound)
        break;  // with the boundaries of forward packs, less memory is held, but packs are less equal
      const GroupCut cut{count, options_.tile, asymmetric, options_.exact, !options_.exact && members_ > 1};
      memory_bound = improve_with(cut, best.schedule.seconds, best).memory_bound;
    }
    if (best.schedule.seconds < before) return Trial::better;
    return memory_bound ? Trial::limited : Trial::too_long;
  }

  /// Tries a multiple of the promising number of packs, or the number that was given.
  Trial try_relative(double packs, GroupPlan& best) {
    const double count = packs * static_cast<double>(work_.promising(options_.tile));
    return try_count(
        options_.packs > 0 ? options_.packs : static_cast<std::size_t>(std::max(1.0, std::round(count))),
        best);
  }

  /// Looks for a better number of packs than `best` has; if `best` does not fit, for any that does first.
  /// @param enough the search ends with a schedule that takes no more seconds than this. @param hopeless it gives up if
  /// the numbers of packs that it begins with would take this long even with enough memory.
  void search(double enough, GroupPlan& best, double hopeless = std::numeric_limits<double>::infinity()) {
    if (options_.packs > 0) {
      try_count(options_.packs, best);
      return;
    }
    tried_.assign(1, best.cut.packs);
    if (!best.schedule.fits()) {
      begin(enough, hopeless, best);
      if (best.schedule.unlimited >= hopeless) return;
    }
    climb(enough, best);
  }

  /// Seconds that every schedule of about `count` packs takes at least.
  [[nodiscard]] double least_seconds(std::size_t count) const {
    return work_.least_seconds(enough_packs * static_cast<double>(count));
  }

 private:
  /// A candidate counts only if one of its passes has at least this share of the packs that were asked for.
  static constexpr double enough_packs = 0.6;
  static constexpr int most_doublings = 6;

  /// Tries a number of packs unless `best` takes no more than `enough` seconds, or the search has tried the number before.
  Trial try_near(double wanted, double enough, GroupPlan& best) {
    if (wanted < 1.0 || wanted > static_cast<double>(work_.pieces(options_.tile))) return Trial::too_long;
    const auto count = static_cast<std::size_t>(std::round(wanted));
    const bool known = std::find(tried_.begin(), tried_.end(), count) != tried_.end();
    if (known || best.schedule.seconds <= enough) return Trial::limited;
    tried_.push_back(count);
    return try_count(count, best);
  }

  /// Tries a promising number of packs and one pack for each sample. Where memory limits both, it tries halves, then doubles,
  /// until one takes too long even with enough memory.
  void begin(double enough, double hopeless, GroupPlan& best) {
    const auto start = static_cast<double>(work_.promising(options_.tile));
    try_near(start, enough, best);
    try_near(static_cast<double>(work_.samples()), enough, best);
    const bool limited = !best.schedule.fits() || best.schedule.memory_bound;
    if (!limited || (best.schedule.fits() && best.schedule.unlimited >= hopeless)) return;
    for (const double factor : {0.5, 2.0}) {
      double packs = start;
      for (int i = 0; i < most_doublings; ++i) {
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

  /// Cuts the packs, but keeps the forward packs if they were last cut in the same way.
  void cut_packs(const GroupCut& cut) {
    GroupCut forward = cut;
    forward.asymmetric = true;
    if (!cut.asymmetric && last_ == forward) {
      cutter_.mirror(packs_);
    } else {
      cutter_.cut(cut, packs_);
    }
    last_ = forward;
  }

  /// Whether all members have enough packs: exactly as many as asked for, if the cut is exact.
  [[nodiscard]] bool has_packs(const GroupCut& cut) const {
    if (!cut.exact) {
      const std::size_t most = std::max(packs_.forward.rows.size(), packs_.backward.rows.size());
      return options_.packs > 0 || static_cast<double>(most) >= enough_packs * static_cast<double>(cut.packs);
    }
    for (const PackRows* rows : {&packs_.forward, &packs_.backward}) {
      std::vector<std::size_t> own(members_, 0);
      for (std::size_t k = 0; k < rows->packs.size(); ++k) {
        for (const std::uint32_t p : rows->members[k]) ++own[p];
      }
      if (std::any_of(own.begin(), own.end(), [&](std::size_t n) { return n != cut.packs; })) return false;
    }
    return true;
  }

  GroupPrices& prices_;
  Options options_;
  GroupWork work_;
  GroupCutter cutter_;
  Scheduler scheduler_;
  GroupPacks packs_;
  std::optional<GroupCut> last_;    // how the forward packs were cut
  std::vector<std::size_t> tried_;  // numbers of packs, by the search that runs
  GroupPlan trial_;
  std::size_t members_ = 0;
  bool alike_ = false;  // members run the same packs: none has samples of its own
};

}  // namespace slimpack
