#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/schedule/schedule.hpp"
#include "slimpack/slicing/cut_seconds.hpp"
#include "slimpack/slicing/group_cutter.hpp"

namespace slimpack {

/// Number of packs with which filling and draining a pipeline costs as much as all packs add.
/// @param work of a stage. @param each what each pack adds: its constants, and the cut before it.
[[nodiscard]] inline std::size_t promising_packs(std::size_t stages, double work, double each) {
  const double fill = std::max(0.5, static_cast<double>(stages) - 1.0) * work;
  const double packs = each > 0.0 ? std::sqrt(fill / each) : 64.0 * static_cast<double>(stages);
  return static_cast<std::size_t>(std::clamp(packs, 1.0, 1e6));
}

/// A candidate for a group of pipelines: how its samples are cut, and the schedule of the packs.
struct GroupPlan {
  GroupCut cut;
  Schedule schedule;
  bool estimated = false;  ///< nothing was cut; only an estimate of the schedule's seconds is known
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
      : lengths_(lengths),
        prices_(prices),
        options_(options),
        cutter_(lengths),
        scheduler_(lengths, prices, memory) {}

  [[nodiscard]] Options& options() { return options_; }
  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }

  /// Chooses the group that later calls are about. O(samples).
  void load(const SampleGroup& group) {
    members_ = group.size();
    last_.reset();
    cutter_.load(group, prices_.alone(), prices_.of(group.merged.empty() ? 1 : members_));
    find_work(group);
  }

  /// Cuts the group in one way and schedules it. The seconds are infinite if the schedule does not fit into memory, takes
  /// `most` seconds or longer, or has too few packs of those that were asked for. @returns whether it has enough.
  bool try_cut(const GroupCut& cut, double most, GroupPlan& out) {
    out.cut = cut;
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

  /// How a candidate did.
  struct Verdict {
    double seconds;     ///< at least; infinite if it was given up
    bool memory_bound;  ///< memory forces recomputation or a smaller lead, or refuses the packs
    bool refused;       ///< memory holds no order of the packs
    bool lacking;       ///< it has too few packs
  };

  /// Cuts the group in one way and schedules it; if that is faster than `best`, it replaces `best`. One member alone comes
  /// first, because all members take at least as long. @param most a candidate is given up if it takes that long; no less
  /// than the seconds of `best`.
  Verdict improve_with(const GroupCut& cut, double most, GroupPlan& best) {
    GroupCut first = cut;
    first.one_member = members_ > 1 && !cut.exact;
    bool lacking = !try_cut(first, most, trial_);
    if (first != cut && trial_.schedule.seconds < best.schedule.seconds)
      lacking = !try_cut(cut, best.schedule.seconds, trial_);
    const Verdict verdict{trial_.schedule.seconds, trial_.schedule.memory_bound, trial_.schedule.refused,
                          lacking};
    if (trial_.schedule.seconds < best.schedule.seconds) std::swap(trial_, best);
    return verdict;
  }

  /// Tries about `count` packs; where memory binds, with both ways to cut the backward pass. If that is better than `best`,
  /// it replaces `best`. @returns whether it is.
  bool try_count(std::size_t count, GroupPlan& best) {
    if (least_seconds(count) >= best.schedule.seconds) return false;
    const double before = best.schedule.seconds;
    for (const bool asymmetric : {true, false}) {
      const GroupCut cut{count, options_.tile, asymmetric, options_.exact, !options_.exact && members_ > 1};
      if (!improve_with(cut, best.schedule.seconds, best).memory_bound)
        break;  // with the boundaries of forward packs, less memory is held, but packs are less equal
    }
    return best.schedule.seconds < before;
  }

  /// Looks for a better number of packs than `best` has. If `best` does not fit, the search begins with `promising` and with
  /// one pack for each sample; where memory limits both, it tries halves, then doubles, until one takes too long even with enough memory. From the best of these it climbs: by a
  /// factor of the square root of two as long as that helps, then by that factor's root.
  /// @param enough the search ends with a schedule that takes no more seconds than this. @param hopeless it gives up if the
  /// first schedule that fits would take this long even with enough memory.
  void search(double enough, GroupPlan& best, double hopeless = std::numeric_limits<double>::infinity()) {
    if (options_.packs > 0) {
      try_count(options_.packs, best);
      return;
    }
    const std::size_t most = most_packs();
    std::vector<std::size_t> tried{best.cut.packs};
    const auto try_near = [&](double wanted) {
      if (wanted < 1.0 || wanted > static_cast<double>(most) || best.schedule.seconds <= enough) return false;
      const auto count = static_cast<std::size_t>(std::round(wanted));
      if (std::find(tried.begin(), tried.end(), count) != tried.end()) return false;
      tried.push_back(count);
      return try_count(count, best);
    };
    if (!best.schedule.fits()) {
      const auto start = static_cast<double>(promising());
      try_near(start);
      if (best.schedule.fits() && best.schedule.unlimited >= hopeless) return;
      try_near(static_cast<double>(samples_));
      const bool limited = !best.schedule.fits() || best.schedule.memory_bound;
      for (const double factor : {0.5, 2.0}) {
        double packs = start;
        for (int i = 0; limited && i < most_doublings; ++i) {
          packs *= factor;
          if (!try_near(packs) && best.schedule.fits() && !trial_.schedule.memory_bound) break;
        }
      }
    }
    for (const double step : {0.5, 0.25}) {
      for (const double direction : {1.0, -1.0}) {
        const std::size_t middle = best.cut.packs;
        while (try_near(static_cast<double>(best.cut.packs) * std::exp2(direction * step))) {
        }
        if (best.cut.packs != middle) break;
      }
    }
  }

  /// Seconds that every schedule takes at least: the busiest stage's work.
  [[nodiscard]] double work_seconds() const { return *std::max_element(work_.begin(), work_.end()); }

  /// `promising_packs` of the group, or as many as there are pieces to fill them.
  [[nodiscard]] std::size_t promising() const {
    const double each = *std::max_element(constants_.begin(), constants_.end()) + cut_seconds_;
    return std::min(most_packs(), promising_packs(work_.size(), work_seconds(), each));
  }

  /// Tokens of the samples that the member with most tokens takes part in.
  [[nodiscard]] Tokens tokens() const { return tokens_; }

  /// Seconds that every schedule of about `count` packs takes at least: a stage's work, the constants of its packs, and the
  /// first and the last pack's way through the stages before it.
  [[nodiscard]] double least_seconds(std::size_t count) const {
    const auto packs = static_cast<double>(count);
    double most = 0.0, before = 0.0;
    for (std::size_t s = 0; s < work_.size(); ++s) {
      most = std::max(most, work_[s] + enough_packs * (packs * constants_[s] + before / packs));
      before += work_[s];
    }
    return most;
  }

 private:
  /// A candidate counts only if it has at least this share of the packs that were asked for. No pack is assumed to be
  /// smaller than this share of the mean pack.
  static constexpr double enough_packs = 0.6;
  static constexpr int most_doublings = 6;

  /// Pieces that a member's samples can be cut into.
  [[nodiscard]] std::size_t most_packs() const {
    return samples_ + static_cast<std::size_t>(tokens_ / options_.tile);
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

  /// The busiest member's work on each stage, samples uncut, and the constants of a pack.
  void find_work(const SampleGroup& group) {
    const Prices& alone = prices_.alone();
    const std::size_t stages = alone.stages();
    work_.assign(stages, 0.0);
    samples_ = 0;
    tokens_ = 0;
    std::vector<double> seconds(stages);
    const auto lengths_of = [&](const std::vector<SampleId>& ids) -> std::span<const Tokens> {
      own_.clear();
      for (const SampleId id : ids) own_.push_back(lengths_[id]);
      return own_;
    };
    for (const std::vector<SampleId>& local : group.local) {
      std::fill(seconds.begin(), seconds.end(), 0.0);
      add_sample_seconds(alone, lengths_of(local), seconds);
      for (std::size_t s = 0; s < stages; ++s) work_[s] = std::max(work_[s], seconds[s]);
      samples_ = std::max(samples_, own_.size());
      tokens_ = std::max(tokens_, std::accumulate(own_.begin(), own_.end(), Tokens{0}));
    }
    if (!group.merged.empty()) {
      add_sample_seconds(prices_.of(members_), lengths_of(group.merged), work_);
      samples_ += own_.size();
      tokens_ += std::accumulate(own_.begin(), own_.end(), Tokens{0});
    }
    find_cut_seconds(group);
    constants_.clear();
    for (std::size_t s = 0; s < stages; ++s)
      constants_.push_back(alone.pack_seconds(s, Pass::forward) + alone.pack_seconds(s, Pass::backward));
  }

  /// What a cut adds on the busiest stage.
  void find_cut_seconds(const SampleGroup& group) {
    const auto busiest =
        static_cast<std::size_t>(std::max_element(work_.begin(), work_.end()) - work_.begin());
    const auto add = [&](const std::vector<SampleId>& ids, const Prices& prices) {
      own_.clear();
      for (const SampleId id : ids) own_.push_back(lengths_[id]);
      const double seconds = mean_cut_seconds(own_, [&](Tokens begin, Tokens end) {
        return prices.slice_seconds(busiest, begin, end, Pass::forward) +
               prices.slice_seconds(busiest, begin, end, Pass::backward);
      });
      cut_seconds_ = std::max(cut_seconds_, seconds);
    };
    cut_seconds_ = 0.0;
    add(group.local.front(), prices_.alone());
    if (!group.merged.empty()) add(group.merged, prices_.of(members_));
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

  std::span<const Tokens> lengths_;
  GroupPrices& prices_;
  Options options_;
  GroupCutter cutter_;
  Scheduler scheduler_;
  GroupPacks packs_;
  std::optional<GroupCut> last_;  // how the forward packs were cut
  GroupPlan trial_;
  std::size_t members_ = 0;
  std::size_t samples_ = 0;  // that a member of the loaded group takes part in, at most
  Tokens tokens_ = 0;
  std::vector<double> work_, constants_;  // [stage]
  double cut_seconds_ = 0.0;
  std::vector<Tokens> own_;
};

}  // namespace slimpack
