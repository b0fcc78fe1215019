#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/planners/group.hpp"

namespace slimpack {

/// Evaluates candidates for groups of pipelines: for a number of packs, the schedule with the recomputation
/// that its memory needs, simulated. Keeps its memory between calls.
template <CostModel C, MemoryModel M>
class CandidateEvaluator {
 public:
  /// @param recompute_limit [stage] most layers to compute again. @param asymmetric, exact as in
  /// GroupScheduler::Cut.
  CandidateEvaluator(std::span<const Tokens> lengths, const C& cost, const M& memory,
                     std::span<const std::int32_t> recompute_limit, MicroPackOptions micropack,
                     bool asymmetric, bool exact)
      : lengths_(lengths),
        cost_(cost),
        memory_(memory),
        recompute_limit_(recompute_limit.begin(), recompute_limit.end()),
        asymmetric_(asymmetric),
        exact_(exact),
        scheduler_(lengths, micropack) {}

  /// What to schedule, and how thoroughly.
  struct Trial {
    std::size_t packs = 0;  ///< per member and pass
    std::size_t members =
        std::numeric_limits<std::size_t>::max();  ///< only the first so many, standing for all
    double enough = 0.0;                          ///< seconds; a schedule that takes no longer is good enough
    double most = std::numeric_limits<double>::infinity();  ///< seconds; one that takes longer is of no use
    bool memory_bound = true;                               ///< false: nor is one that memory holds back
  };

  enum class Outcome : std::uint8_t {
    fits,
    no_room,  ///< does not fit into memory
    no_use,   ///< given up: takes longer, or is more bound by memory, than the trial may
  };

  /// Schedules a group, with as many layers recomputed as its longest sample needs to find room at all. If
  /// PackFlow's full lead does not fit into memory, times the schedule with its lead limited to what fits, and then
  /// with as many layers recomputed as the full lead needs. The faster one counts; unless it fits, the seconds of
  /// `out` are infinite. Exact numbers of packs leave no way back, so that all members are scheduled.
  ///
  /// Merged samples are cut once. Where slices cost far more than they do, or nothing fits, they are cut in rounds, too:
  /// other packs come of it, mostly fewer.
  Outcome operator()(const SampleGroup& group, Trial trial, GroupSchedule& out) {
    if (exact_) trial.members = group.size();
    const Outcome outcome = evaluate(group, trial, true, out);
    if (group.merged.empty() || (outcome != Outcome::no_room && waste_ <= much_waste)) return outcome;
    trial.most = std::min(trial.most, out.seconds);
    if (evaluate(group, trial, false, other_) != Outcome::fits) return outcome;
    if (other_.seconds < out.seconds) std::swap(other_, out);
    return Outcome::fits;
  }

  /// Schedules all members of a group in the way that was found for some of them, with merged packs as equal as
  /// can be, unless that takes longer, and longer than `enough` seconds. @returns whether it fits.
  bool complete(const SampleGroup& group, std::size_t packs, double enough, GroupSchedule& schedule) {
    const std::vector<std::int32_t> recompute = schedule.recompute;
    const SlicingWaste waste = schedule.waste;
    const bool once = schedule.cut_once;
    const double good = std::max(enough, as_found * schedule.seconds);
    schedule.seconds = std::numeric_limits<double>::infinity();
    for (const bool accurate : {true, false}) {  // the second is cut as it was found
      build(group,
            {.packs = packs, .accurate = accurate, .once = once, .waste = accurate ? waste : SlicingWaste{}},
            recompute);
      if (!exact_ || has_packs(packs)) time(full_lead_fits(recompute), schedule);
      if (schedule.seconds <= good) return true;
    }
    return schedule.seconds < std::numeric_limits<double>::infinity() ||
           (!exact_ && (*this)(group, {.packs = packs}, schedule) == Outcome::fits);
  }

 private:
  /// A schedule that takes this many times as long as another one takes as long.
  static constexpr double as_found = 1.001;

  /// What slices add to merged samples, as a share of them, from which on another cut may be better.
  static constexpr double much_waste = 0.25;

  /// A trial with merged samples cut in one way.
  Outcome evaluate(const SampleGroup& group, const Trial& trial, bool once, GroupSchedule& out) {
    out.seconds = std::numeric_limits<double>::infinity();
    std::vector<std::int32_t> recompute = least_recompute(group, trial.members);
    double beyond_work = 0.0;  // what packs cost the busiest stage beside its samples
    bool settled = false;
    while (!settled) {
      if (recomputes(recompute)) {
        if (!trial.memory_bound) return Outcome::no_use;
        const double most = std::min(trial.most, out.seconds);
        if (most < std::numeric_limits<double>::infinity() &&
            least_seconds(group, recompute) + beyond_work > most)
          break;
      }
      build(group, {.packs = trial.packs, .members = trial.members, .once = once}, recompute);
      if (exact_ && !has_packs(trial.packs)) return Outcome::no_room;
      const double busiest = busiest_seconds(current_.times);
      if (busiest > std::min(trial.most, out.seconds)) break;
      Room full_lead = room_for_full_lead(recompute);
      settled = full_lead.recompute == recompute;
      const bool fits = settled && full_lead.fits;
      if (!fits && !trial.memory_bound) return Outcome::no_use;
      if (time(fits, out) || is_enough(out, trial.enough)) return Outcome::fits;
      if (!settled) beyond_work = busiest - least_seconds(group, recompute);
      recompute = std::move(full_lead.recompute);
    }
    if (out.seconds < std::numeric_limits<double>::infinity()) return Outcome::fits;
    return settled ? Outcome::no_room : Outcome::no_use;
  }

  /// Whether all members came out with `packs` packs in both passes; merged and local samples need one each.
  [[nodiscard]] bool has_packs(std::size_t packs) const {
    const GroupTimes& times = current_.times;
    return std::all_of(times.members.begin(), times.members.end(), [&](const PipelineTimes& own) {
      return times.merged_forward.packs() + own.forward.packs() == packs &&
             times.merged_backward.packs() + own.backward.packs() == packs;
    });
  }

  void build(const SampleGroup& group, typename GroupScheduler<C>::Cut cut,
             const std::vector<std::int32_t>& recompute) {
    cut.asymmetric = asymmetric_;
    cut.exact = exact_;
    const C cost = recomputing(recompute);
    scheduler_.build(group, cut, cost, merged_cost(cost, group.size()), current_);
    current_.recompute = recompute;
    waste_ = std::max(current_.waste.forward * static_cast<double>(current_.merged_forward.size()),
                      current_.waste.backward * static_cast<double>(current_.merged_backward.size()));
    sharing_ = current_.merged_forward.empty() ? 1 : group.size();
  }

  /// Times the current schedule, with its full lead or what fits of it, and keeps it if it is faster than
  /// `out`.
  /// @returns whether its lead is full and nothing is recomputed.
  bool time(bool full_lead, GroupSchedule& out) {
    if (!full_lead && !limit(current_.recompute)) return false;
    current_.memory_bound = !full_lead || recomputes(current_.recompute);
    current_.seconds = makespan_(current_.times, cost_.stages());
    const bool unbound = !current_.memory_bound;
    if (current_.seconds < out.seconds) std::swap(current_, out);
    return unbound;
  }

  [[nodiscard]] static bool is_enough(const GroupSchedule& schedule, double seconds) {
    return schedule.seconds < std::numeric_limits<double>::infinity() && schedule.seconds <= seconds;
  }

  [[nodiscard]] static bool recomputes(std::span<const std::int32_t> recompute) {
    return std::any_of(recompute.begin(), recompute.end(), [](std::int32_t layers) { return layers > 0; });
  }

  [[nodiscard]] C recomputing(std::span<const std::int32_t> recompute) const {
    if constexpr (RecomputingCostModel<C>) {
      if (recomputes(recompute)) return cost_.with_recompute(recompute);
    }
    return cost_;
  }

  [[nodiscard]] static C merged_cost(const C& cost, std::size_t members) {
    if constexpr (MergeableCostModel<C>) {
      if (members > 1) return cost.with_context_parallel(static_cast<std::int32_t>(members));
    }
    return cost;
  }

  [[nodiscard]] StageMemory stage_memory(std::size_t s, std::size_t member, std::int32_t recompute) const {
    const auto workspace = [&](Pass pass, double tokens) {
      const auto most = static_cast<Tokens>(tokens + 1.0);
      const double own = memory_.workspace_bytes(s, pass, most, recompute);
      return own + exchange_bytes(memory_, s, pass, most * static_cast<Tokens>(sharing_), sharing_);
    };
    const double work = std::max(workspace(Pass::forward, current_.largest_forward[member]),
                                 workspace(Pass::backward, current_.largest_backward[member]));
    return {.available = memory_.capacity_bytes() - memory_.static_bytes(s) - work,
            .activation = memory_.activation_bytes(s, recompute),
            .kv_gradient = memory_.kv_gradient_bytes(s)};
  }

  [[nodiscard]] bool peaks_fit(std::size_t s, std::int32_t recompute) const {
    for (std::size_t i = 0; i < live_.size(); ++i) {
      const StageMemory stage = stage_memory(s, i, recompute);
      if (stage.activation * live_[i] + stage.kv_gradient * kv_gradients_[i] > stage.available) return false;
    }
    return true;
  }

  /// Finds out what each member's full lead holds on a stage.
  void find_peaks(std::size_t s) {
    live_.clear();
    for (std::size_t i = 0; i < current_.times.members.size(); ++i)
      live_.push_back(peak_live(current_.flow[i], current_.times.members[i].leads, s));
    if (s > 0) return;
    kv_gradients_.clear();
    for (const TokenFlow& flow : current_.flow) kv_gradients_.push_back(peak_kv_gradients(flow));
  }

  /// Whether the full lead fits on a stage. Stages have to be asked for from the first.
  [[nodiscard]] bool full_lead_fits(std::size_t s, std::int32_t recompute) {
    if (s > 0 && peaks_fit(s, recompute)) return true;  // what the one before holds, which is no less
    find_peaks(s);
    return peaks_fit(s, recompute);
  }

  /// What the full lead takes: layers to recompute per stage, and whether it fits with them.
  struct Room {
    std::vector<std::int32_t> recompute;
    bool fits = true;
  };

  [[nodiscard]] bool full_lead_fits(std::span<const std::int32_t> recompute) {
    for (std::size_t s = 0; s < recompute.size(); ++s) {
      if (!full_lead_fits(s, recompute[s])) return false;
    }
    return true;
  }

  /// As few layers as suffice, but not fewer than `now`; where nothing suffices, all that can be.
  [[nodiscard]] Room room_for_full_lead(std::span<const std::int32_t> now) {
    Room room{.recompute = {now.begin(), now.end()}};
    for (std::size_t s = 0; s < now.size(); ++s) {
      std::int32_t& layers = room.recompute[s];
      const std::int32_t most = RecomputingCostModel<C> ? recompute_limit_[s] : layers;
      bool fits = full_lead_fits(s, layers);
      while (!fits && layers < most) fits = peaks_fit(s, ++layers);
      room.fits = room.fits && fits;
    }
    return room;
  }

  /// Layers that each stage has to compute again so that the longest sample fits when it turns back, beside
  /// nothing else. With fewer, no schedule fits.
  [[nodiscard]] std::vector<std::int32_t> least_recompute(const SampleGroup& group,
                                                          std::size_t members) const {
    std::vector<std::int32_t> recompute(cost_.stages(), 0);
    if constexpr (RecomputingCostModel<C>) {
      const double longest = longest_part(group, lengths_, members);
      for (std::size_t s = 0; s < recompute.size(); ++s) {
        const double available = memory_.capacity_bytes() - memory_.static_bytes(s);
        const auto held = [&] {
          return longest * (memory_.activation_bytes(s, recompute[s]) + memory_.kv_gradient_bytes(s));
        };
        while (recompute[s] < recompute_limit_[s] && held() > available) ++recompute[s];
      }
    }
    return recompute;
  }

  /// Work of the group's first member on its busiest stage, samples uncut: no schedule takes less.
  [[nodiscard]] double least_seconds(const SampleGroup& group, std::span<const std::int32_t> recompute) {
    const C cost = recomputing(recompute), merged = merged_cost(cost, group.size());
    work_.assign(cost.stages(), 0.0);
    const auto add = [&](const std::vector<SampleId>& ids, const C& price) {
      tokens_.clear();
      for (const SampleId id : ids) tokens_.push_back(lengths_[id]);
      add_sample_seconds(price, tokens_, work_);
    };
    add(group.merged, merged);
    add(group.local.front(), cost);
    return *std::max_element(work_.begin(), work_.end());
  }

  /// Work on the busiest stage of a group's first member: no order of its packs takes less.
  [[nodiscard]] double busiest_seconds(const GroupTimes& times) {
    work_.assign(cost_.stages(), 0.0);
    const PipelineTimes& own = times.members.front();
    for (const PassTimes* const pass :
         {&times.merged_forward, &own.forward, &times.merged_backward, &own.backward}) {
      const double* seconds = pass->seconds.data();
      for (std::size_t k = 0; k < pass->packs(); ++k, seconds += work_.size()) {
        for (std::size_t s = 0; s < work_.size(); ++s) work_[s] += seconds[s];
      }
    }
    return *std::max_element(work_.begin(), work_.end());
  }

  /// Limits the leads of all members to memory; while merged packs run backward, to what all members can
  /// take.
  bool limit(std::span<const std::int32_t> recompute) {
    std::vector<PipelineTimes>& members = current_.times.members;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const TokenFlow& flow = current_.flow[i];
      const auto forward_packs = static_cast<std::uint32_t>(flow.forward.size() - 1);
      StageMemory before;
      for (std::size_t s = 0; s < recompute.size(); ++s) {
        const StageMemory stage = stage_memory(s, i, recompute[s]);
        if (s == 0 || stage != before) fitting_leads(flow, stage, fitting_);
        if (!limit_leads(fitting_, forward_packs, scheduler_.required(i), s, members[i].leads)) return false;
        before = stage;
      }
    }
    for (std::size_t k = 0; k < current_.merged_backward.size(); ++k) {
      for (std::size_t s = 0; s < recompute.size(); ++s) {
        std::uint32_t least = members[0].leads(k, s);
        for (std::size_t i = 1; i < members.size(); ++i) least = std::min(least, members[i].leads(k, s));
        for (std::size_t i = 0; i < members.size(); ++i) members[i].leads(k, s) = least;
      }
    }
    return true;
  }

  std::span<const Tokens> lengths_;
  const C& cost_;
  const M& memory_;
  std::vector<std::int32_t> recompute_limit_;
  bool asymmetric_;
  bool exact_;
  GroupScheduler<C> scheduler_;
  GroupMakespan makespan_;
  GroupSchedule current_, other_;
  double waste_ = 0.0;          // what slices add to the current group's merged samples, as a share of them
  std::size_t sharing_ = 1;     // members of the current group that run its merged packs
  std::vector<double> work_;    // [stage]
  std::vector<Tokens> tokens_;  // of samples that are being priced
  std::vector<double> live_;    // [member] most live tokens on the stage that was asked for last
  std::vector<double> kv_gradients_;   // [member] most tokens that have them
  std::vector<std::int32_t> fitting_;  // [backward pack] of the stage that is being limited
};

/// Numbers of packs to try: multiples `i * stages` with i thinned logarithmically, two per doubling
/// (SlimPack, section 5.1 and Figure 12), up to `most`; `stages` at least.
[[nodiscard]] inline std::vector<std::size_t> pack_counts(std::size_t stages, std::size_t most) {
  std::vector<std::size_t> counts{stages};
  for (std::size_t i = 2; i * stages <= most; i *= 2) {
    counts.push_back(i * stages);
    if (i * 3 / 2 * stages <= most) counts.push_back(i * 3 / 2 * stages);
  }
  return counts;
}

}  // namespace slimpack
