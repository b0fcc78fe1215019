#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/schedule/checkpointing.hpp"
#include "slimpack/schedule/least_seconds.hpp"
#include "slimpack/schedule/schedule_trials.hpp"

namespace slimpack {

/// Finds the fastest of the orders and recomputations with which given packs fit into memory: full leads where each stage
/// or each pack recomputes what it needs, or smaller leads. Keeps its memory between schedules.
class FitSearch {
 public:
  /// @param trials has to outlive this.
  explicit FitSearch(ScheduleTrials& trials)
      : trials_(trials), memory_(trials.memory()), least_seconds_(memory_.stages()) {}

  /// Whether all schedules of priced packs take `most` seconds or longer. O(packs * stages).
  [[nodiscard]] bool surely_takes(const Schedule& packs, double most) {
    return most < infinite && least_seconds_(packs) >= most;
  }

  /// Orders and times priced packs, and recomputes as much as memory requires. @param most gives up if the schedule takes this
  /// long or longer; its seconds are then infinite.
  void operator()(Schedule& out, const ScheduleOptions& options, double most) {
    give_up(out);
    if (surely_takes(out, most)) return;
    trials_.load(out, options);
    out.recompute = nothing();
    try_full_leads(out, options, most);
    if (options.eager_if_faster) try_eager(out, options, most);
    trials_.set_recompute(out.recompute, out);
    if (out.seconds >= most) out.seconds = infinite;
  }

  /// Marks a schedule as one that was not found.
  static void give_up(Schedule& out) {
    out.seconds = out.unlimited = infinite;
    out.memory_bound = false;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  [[nodiscard]] Recompute nothing() const {
    return Recompute(std::vector<std::int32_t>(memory_.stages(), 0));
  }

  /// Tries the eager order as well if it is faster with enough memory.
  void try_eager(Schedule& out, const ScheduleOptions& options, double most) {
    const bool memory_bound = out.memory_bound;
    trials_.make_leads(PassOrder::eager, options, out);
    trials_.set_recompute({}, out);
    const double eager = trials_.makespan(trials_.full_leads(), out);
    const bool may_help =
        eager < out.unlimited && (eager < most || !trials_.fits(trials_.full_leads(), nothing()));
    if (may_help) try_full_leads(out, options, most);
    out.memory_bound = memory_bound;
  }

  /// Times the packs with the full leads or, if these do not fit, with what does. Keeps what is faster than `out`; the packs'
  /// seconds are then those of the last candidate.
  void try_full_leads(Schedule& out, const ScheduleOptions& options, double most) {
    const LeadTable& full = trials_.full_leads();
    trials_.set_recompute(nothing(), out);
    const double unlimited = trials_.makespan(full, out);
    out.unlimited = std::min(out.unlimited, unlimited);
    const std::vector<std::int32_t> needed = full_lead_recompute();
    const auto [least, greatest] = std::minmax_element(needed.begin(), needed.end());
    if (*least == 0 && *greatest == 0) return ScheduleTrials::keep_if_faster(full, nothing(), unlimited, out);
    out.memory_bound = true;
    if (*least >= 0) trials_.time(full, Recompute(needed), out);
    if (options.fit == FitPolicy::fastest) try_smaller_leads(needed, out);
    const bool few_held = held_rows(full) <= options.most_held_rows;
    const auto may_help = [&] { return memory_.recomputes() && unlimited < std::min(most, out.seconds); };
    if (options.each_pack && few_held && !(options.each_pack_if_needed && out.fits()) && may_help() &&
        each_pack_takes(out) < std::min(most, out.seconds))
      try_each_pack(out);
    if (options.offload && may_help()) try_offload(few_held, out);
  }

  /// Layers on each stage that the full lead needs; -1 where none suffice.
  [[nodiscard]] std::vector<std::int32_t> full_lead_recompute() {
    std::vector<std::int32_t> layers;
    for (std::size_t s = 0; s < memory_.stages(); ++s)
      layers.push_back(trials_.fit().least_recompute(trials_.full_leads(), s));
    return layers;
  }

  /// Starts with no recomputed layers, then with half of those that the full lead would need (of all, if none suffice). Lowers
  /// the lead until it fits; where no lead fits, recomputes more.
  void try_smaller_leads(std::span<const std::int32_t> needed, Schedule& out) {
    for (const double share : {0.0, 0.5}) {
      std::vector<std::int32_t> layers;
      for (std::size_t s = 0; s < needed.size(); ++s) {
        const std::int32_t all = needed[s] < 0 ? memory_.recompute_limit(s) : needed[s];
        layers.push_back(static_cast<std::int32_t>(share * all));
      }
      if (share > 0.0 && std::all_of(layers.begin(), layers.end(), [](auto l) { return l == 0; })) return;
      lowered_ = trials_.full_leads();
      if (trials_.limit(layers, lowered_)) trials_.time(lowered_, Recompute(std::move(layers)), out);
    }
  }

  /// Seconds that the packs take at least with the full leads and the recomputation that windows ask for.
  [[nodiscard]] double each_pack_takes(Schedule& out) {
    MemoryFit& fit = trials_.fit();
    least_recomputed(trials_.full_leads(), memory_, fit, more_);
    trials_.recompute_prices().to_least_seconds(out, fit.tokens(), more_);
    trials_.set_recompute({}, out);
    return least_seconds_(out, more_);
  }

  /// What each pack needs to recompute with full leads; empty if full leads can't fit.
  [[nodiscard]] std::optional<Recompute> each_pack_needs(const Schedule& packs, PackWorkspace workspace) {
    const auto windows =
        checkpoint_windows(trials_.full_leads(), memory_, trials_.fit(), windows_, workspace);
    return quick_checkpoints(packs.backward, windows, memory_);
  }

  /// Lets each pack recompute what it needs, with full leads.
  void try_each_pack(Schedule& out) {
    const std::optional<Recompute> needed = each_pack_needs(out, PackWorkspace::recomputing);
    if (needed && trials_.fits(trials_.full_leads(), *needed))
      trials_.time(trials_.full_leads(), *needed, out);
  }

  /// Lets layers wait in the host's memory in place of recomputing them, if that is faster, or if nothing fits otherwise.
  /// @param each_pack whether packs may do so unlike each other.
  void try_offload(bool each_pack, Schedule& out) {
    trials_.recompute_prices().allow_offload(out);
    const LeadTable& full = trials_.full_leads();
    if (each_pack) {
      if (const auto needed = each_pack_needs(out, PackWorkspace::offloading))
        trials_.time_offloaded(full, *needed, out);
    }
    if (out.fits()) return trials_.time_offloaded(LeadTable{out.leads}, Recompute{out.recompute}, out);
    const std::size_t stages = memory_.stages(), packs = out.backward.packs.size();
    std::vector<std::int32_t> all;
    for (std::size_t i = 0; i < packs * stages; ++i) all.push_back(memory_.recompute_limit(i % stages));
    for (const Recompute& most :
         {Recompute(stages, std::vector<std::int32_t>(all.size(), 0), all), Recompute(stages, all, all)}) {
      lowered_ = full;
      if (trials_.fits(full, most) || trials_.limit(most, lowered_)) trials_.time(lowered_, most, out);
    }
  }

  ScheduleTrials& trials_;
  const Memory& memory_;
  LeastSeconds least_seconds_;
  LeadTable lowered_;
  std::vector<CheckpointWindows> windows_;  // memory of `checkpoint_windows`
  std::vector<double> more_;                // [pipeline * stages + stage] seconds of recomputation, at least
};

}  // namespace slimpack
