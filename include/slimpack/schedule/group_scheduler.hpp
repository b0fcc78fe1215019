#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/schedule/group_work.hpp"
#include "slimpack/schedule/scheduler.hpp"
#include "slimpack/slicing/group_cutter.hpp"

namespace slimpack {

/// A candidate for a group of pipelines: how its samples are cut, and the schedule of the packs.
struct GroupPlan {
  GroupCut cut;
  Schedule schedule;
  std::size_t promising = 0;  ///< packs that promise a short schedule (`GroupWork::promising`)
  bool estimated = false;     ///< nothing was cut; only an estimate of the schedule's seconds is known

  /// Packs as a multiple of the promising number, which also suits other groups; 0 if nothing was cut.
  [[nodiscard]] double relative_packs() const {
    return promising > 0 ? static_cast<double>(cut.packs) / static_cast<double>(promising) : 0.0;
  }
};

/// How much time is spent on a candidate whose packs memory limits.
enum class Care : std::uint8_t {
  quick,  ///< packs recompute different numbers of layers only if nothing else fits
  full,   ///< the schedule's options as they are
};

/// Cuts and schedules the samples of a group of pipelines in one way after another. Keeps its memory between calls.
class GroupScheduler {
 public:
  struct Options {
    std::size_t packs = 0;  ///< per member and pass; 0: to be found
    Tokens tile = 128;      ///< that numbers of packs are found with
    bool exact = false;     ///< the number of packs is exact on all members, in both passes
    /// A candidate counts only if one of its passes has at least this share of the packs that were asked for.
    double enough_packs = 0.0;
    bool fill = true;  ///< `GroupCut::fill` of all that is decided
    /// All members are tried if one of them alone takes no more than this many times as long as the best.
    double leeway = 1.05;
    ScheduleOptions schedule = {};

    /// About `count` packs.
    [[nodiscard]] GroupCut cut(std::size_t count, BackwardPacks backward) const {
      return {.packs = count, .tile = tile, .backward = backward, .fill = fill, .exact = exact};
    }
    friend bool operator==(const Options&, const Options&) = default;
  };

  /// @param lengths of all samples. @param prices, memory of the pipelines' kind. All have to outlive this.
  GroupScheduler(std::span<const Tokens> lengths, GroupPrices& prices, const Memory& memory,
                 const Options& options)
      : prices_(prices),
        options_(options),
        work_(lengths, prices, memory),
        cutter_(lengths),
        scheduler_(lengths, prices, memory) {}

  [[nodiscard]] Options& options() { return options_; }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
  /// Of the group that was loaded last.
  [[nodiscard]] const GroupWork& work() const { return work_; }
  /// Packs that promise a short schedule of it.
  [[nodiscard]] std::size_t promising() const { return work_.promising(options_.tile); }
  /// Seconds that schedules of about `count` packs take at least (`GroupWork::least_seconds`).
  [[nodiscard]] double least_seconds(std::size_t count) const {
    return work_.least_seconds(options_.enough_packs * static_cast<double>(count));
  }

  /// Chooses the group that later calls are about. O(samples).
  void load(const SampleGroup& group) {
    members_ = group.size();
    last_.reset();
    cutter_.load(group, prices_.alone(), prices_.shared_by(group.merged.empty() ? 1 : members_));
    work_.load(group);
  }

  /// The same cut of one member, which stands for all; the cut itself if it is exact, or the group has no other members.
  [[nodiscard]] GroupCut of_one_member(GroupCut cut) const {
    cut.one_member = members_ > 1 && !cut.exact;
    return cut;
  }

  /// Cuts the group in one way and schedules it. The seconds are infinite if the schedule does not fit into memory, takes
  /// `most` seconds or longer, or has far fewer packs than were asked for.
  void schedule(const GroupCut& cut, double most, GroupPlan& out, Care care = Care::full) {
    out.cut = cut;
    out.promising = promising();
    out.schedule.seconds = out.schedule.unlimited = infinite;
    out.schedule.memory_bound = false;
    cut_packs(cut);
    if (!has_packs(cut)) return;
    out.schedule.forward = packs_.forward;
    out.schedule.backward = packs_.backward;
    out.schedule.pipelines = cut.one_member ? 1 : members_;
    ScheduleOptions how = options_.schedule;
    how.each_pack_if_needed = care == Care::quick;
    how.eager_if_faster = how.eager_if_faster && care == Care::full;
    scheduler_(out.schedule, how, most);
  }

  /// Whether memory holds a plan of the loaded group on all members, if one of them stood for all.
  [[nodiscard]] bool fits_all_members(const GroupPlan& plan) {
    if (!plan.schedule.fits() || !plan.cut.one_member) return plan.schedule.fits();
    GroupCut cut = plan.cut;
    cut.one_member = false;
    schedule(cut, infinite, trial_);
    return trial_.schedule.fits();
  }

  /// Cuts the group in one way and schedules it; if that is faster than `best`, it replaces `best`. One member alone comes
  /// first. It counts as the fullest one, so all members may recompute less; if it is slower than `best` by more than
  /// `Options::leeway`, they are not tried. As long as nothing fits, they are, unless it takes too long even with enough
  /// memory. @returns whether memory limits that member: it forces recomputation or a smaller lead, or refuses the packs.
  bool improve_with(const GroupCut& cut, GroupPlan& best, Care care = Care::full) {
    const GroupCut first = of_one_member(cut);
    const double most = first == cut ? best.schedule.seconds : options_.leeway * best.schedule.seconds;
    schedule(first, most, trial_, care);
    const Schedule& tried = trial_.schedule;
    const bool memory_bound = tried.memory_bound;
    if (first != cut) {
      const bool may_help =
          tried.unlimited < best.schedule.seconds && (tried.fits() || !best.schedule.fits());
      trial_.schedule.seconds = infinite;
      if (may_help) schedule(cut, best.schedule.seconds, trial_, care);
    }
    if (trial_.schedule.seconds < best.schedule.seconds) std::swap(trial_, best);
    return memory_bound;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Cuts the packs, but keeps the forward packs if they were last cut in the same way.
  void cut_packs(const GroupCut& cut) {
    const bool mirrors = cut.backward == BackwardPacks::mirrored;
    GroupCut forward = cut;
    if (mirrors) forward.backward = BackwardPacks::own;
    if (mirrors && last_ == forward) {
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
      return options_.packs > 0 || work_.samples() == 0 ||
             static_cast<double>(most) >= options_.enough_packs * static_cast<double>(cut.packs);
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
  std::optional<GroupCut> last_;  // how the forward packs were cut
  GroupPlan trial_;
  std::size_t members_ = 0;
};

}  // namespace slimpack
