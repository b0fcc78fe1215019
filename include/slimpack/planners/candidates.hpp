#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/planners/group.hpp"

namespace slimpack {

/// Evaluates candidates for groups of pipelines: for a number of packs, the schedule with the recomputation that its
/// memory needs, simulated. Keeps its memory between calls.
template <CostModel C, MemoryModel M>
class CandidateEvaluator {
 public:
  /// @param recompute_limit [stage] most layers to compute again. @param asymmetric, exact as in GroupScheduler::Cut.
  CandidateEvaluator(std::span<const Tokens> lengths, const C& cost, const M& memory,
                     std::span<const std::int32_t> recompute_limit, MicroPackOptions micropack,
                     bool asymmetric, bool exact)
      : cost_(cost),
        memory_(memory),
        recompute_limit_(recompute_limit.begin(), recompute_limit.end()),
        asymmetric_(asymmetric),
        exact_(exact),
        scheduler_(lengths, micropack) {}

  /// Schedules a group with `packs` packs per member and pass. Starts without recomputation; as long as PackFlow's
  /// full lead does not fit into memory, times the schedule with its lead limited to what fits, then recomputes
  /// as many layers as the full lead needs. The faster one counts.
  /// @param members schedules only the first so many members of the group, which stand for all.
  /// @returns whether `out` fits into memory; if not, its seconds are infinite.
  bool operator()(const SampleGroup& group, std::size_t packs, std::size_t members, GroupSchedule& out) {
    out.seconds = std::numeric_limits<double>::infinity();
    std::vector<std::int32_t> recompute(cost_.stages(), 0);
    for (bool eager = false, first = true; !eager; first = false) {
      build(group, packs, members, recompute, current_);
      if (exact_ && !has_packs(packs)) return false;
      const std::vector<std::int32_t> needed = needed_recompute(recompute);
      eager = needed == recompute;
      const bool full = eager && full_lead_fits(recompute);
      current_.memory_bound = !full || !first;
      if (full || limit(recompute)) {
        current_.seconds = makespan_(current_.times, cost_.stages(), current_.merged_forward.size(),
                                     current_.merged_backward.size());
        if (current_.seconds < out.seconds) std::swap(current_, out);
      }
      recompute = needed;
    }
    return out.seconds < std::numeric_limits<double>::infinity();
  }

 private:
  /// Whether all members came out with `packs` packs in both passes; merged and local samples need one each.
  [[nodiscard]] bool has_packs(std::size_t packs) const {
    return std::all_of(current_.times.begin(), current_.times.end(), [&](const PipelineTimes& times) {
      return times.forward.transfer.size() == packs && times.backward.transfer.size() == packs;
    });
  }

  void build(const SampleGroup& group, std::size_t packs, std::size_t members,
             const std::vector<std::int32_t>& recompute, GroupSchedule& out) {
    const C cost = recomputing(recompute);
    const C merged = merged_cost(cost, group.size());
    scheduler_.build(group, {.packs = packs, .members = members, .asymmetric = asymmetric_, .exact = exact_},
                     cost, merged, out);
    out.recompute = recompute;
  }

  [[nodiscard]] C recomputing(std::span<const std::int32_t> recompute) const {
    if constexpr (RecomputingCostModel<C>) {
      if (std::any_of(recompute.begin(), recompute.end(), [](std::int32_t r) { return r != 0; })) {
        return cost_.with_recompute(recompute);
      }
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
      return memory_.workspace_bytes(s, pass, static_cast<Tokens>(tokens + 1.0), recompute);
    };
    const double work = std::max(workspace(Pass::forward, current_.largest_forward[member]),
                                 workspace(Pass::backward, current_.largest_backward[member]));
    return {.available = memory_.capacity_bytes() - memory_.static_bytes(s) - work,
            .activation = memory_.activation_bytes(s, recompute),
            .kv_gradient = memory_.kv_gradient_bytes(s)};
  }

  [[nodiscard]] bool peaks_fit(std::size_t s, std::int32_t recompute) const {
    for (std::size_t i = 0; i < current_.times.size(); ++i) {
      const StageMemory stage = stage_memory(s, i, recompute);
      const TokenPeaks peaks = token_peaks(current_.flow[i], current_.times[i].leads, s);
      if (stage.activation * peaks.live + stage.kv_gradient * peaks.kv_gradients > stage.available)
        return false;
    }
    return true;
  }

  /// Layers to recompute per stage, not fewer than now, for the full lead; the limit where nothing suffices.
  [[nodiscard]] std::vector<std::int32_t> needed_recompute(std::span<const std::int32_t> now) const {
    std::vector<std::int32_t> needed(now.begin(), now.end());
    if constexpr (RecomputingCostModel<C>) {
      for (std::size_t s = 0; s < needed.size(); ++s) {
        while (needed[s] < recompute_limit_[s] && !peaks_fit(s, needed[s])) ++needed[s];
      }
    }
    return needed;
  }

  [[nodiscard]] bool full_lead_fits(std::span<const std::int32_t> recompute) const {
    for (std::size_t s = 0; s < recompute.size(); ++s) {
      if (!peaks_fit(s, recompute[s])) return false;
    }
    return true;
  }

  /// Limits the leads of all members to memory; while merged packs run backward, to what all members can take.
  bool limit(std::span<const std::int32_t> recompute) {
    const std::size_t members = current_.times.size();
    for (std::size_t i = 0; i < members; ++i) {
      for (std::size_t s = 0; s < recompute.size(); ++s) {
        const StageMemory stage = stage_memory(s, i, recompute[s]);
        if (!limit_leads(current_.flow[i], stage, scheduler_.required(i), s, current_.times[i].leads))
          return false;
      }
    }
    for (std::size_t k = 0; k < current_.merged_backward.size(); ++k) {
      for (std::size_t s = 0; s < recompute.size(); ++s) {
        std::uint32_t least = current_.times[0].leads(k, s);
        for (std::size_t i = 1; i < members; ++i) least = std::min(least, current_.times[i].leads(k, s));
        for (std::size_t i = 0; i < members; ++i) current_.times[i].leads(k, s) = least;
      }
    }
    return true;
  }

  const C& cost_;
  const M& memory_;
  std::vector<std::int32_t> recompute_limit_;
  bool asymmetric_;
  bool exact_;
  GroupScheduler<C> scheduler_;
  GroupMakespan makespan_;
  GroupSchedule current_;
};

/// Numbers of packs to try: multiples `i * stages` with i thinned logarithmically, two per doubling (SlimPack, section
/// 5.1 and Figure 12), up to `most`.
[[nodiscard]] inline std::vector<std::size_t> pack_counts(std::size_t stages, std::size_t most) {
  std::vector<std::size_t> counts;
  for (std::size_t power = 1; power * stages <= std::max(most, stages); power *= 2) {
    counts.push_back(power * stages);
    if (power >= 2) counts.push_back(power * 3 / 2 * stages);
  }
  return counts;
}

}  // namespace slimpack
