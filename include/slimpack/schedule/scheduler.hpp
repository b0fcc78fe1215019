#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/schedule/checkpoint_search.hpp"
#include "slimpack/schedule/fit_search.hpp"
#include "slimpack/schedule/pack_pricer.hpp"
#include "slimpack/schedule/schedule.hpp"
#include "slimpack/schedule/schedule_options.hpp"
#include "slimpack/schedule/schedule_trials.hpp"

namespace slimpack {

/// Schedules any packs of both passes. Keeps its memory between calls.
class Scheduler {
 public:
  /// @param lengths of all samples. @param prices, memory of the pipelines' kind. All have to outlive this.
  Scheduler(std::span<const Tokens> lengths, GroupPrices& prices, const Memory& memory)
      : lengths_(lengths),
        memory_(memory),
        pricer_(prices),
        trials_(std::make_unique<ScheduleTrials>(lengths, prices, memory)),
        fit_search_(*trials_),
        checkpoints_(*trials_) {}

  /// Prices, orders and times the packs that `out` holds, and recomputes as much as memory requires.
  /// @param out its `pipelines`, `forward` and `backward` are given: each token of each sample is in one pack of each
  /// pass, in token order forward, in reverse order backward, and all packs of a sample name the same pipelines.
  /// @param most gives up if the schedule takes this long or longer; its seconds are then infinite.
  /// O(tasks) plus that of `PackPricer` if memory suffices; otherwise a multiple of that.
  void operator()(Schedule& out, const ScheduleOptions& options = {}, double most = infinite) {
    if (!price_below(out, most, options.sharding)) return FitSearch::give_up(out);
    schedule_priced(out, options, most);
  }

  /// The same for packs that are priced already: `out.forward_times` and `out.backward_times` hold their prices.
  void schedule_priced(Schedule& out, const ScheduleOptions& options = {}, double most = infinite) {
    begin(out);
    fit_search_(out, options, most);
  }

  /// Decides how ranks share the packs that `out` holds, and prices them. @param policy as `PackPricer` takes it.
  void price(Schedule& out, ShardingPolicy policy = ShardingPolicy::adaptive) {
    pricer_(lengths_, out.forward, out.backward, out.forward_times, out.backward_times, policy);
  }

  /// The same, unless all schedules of the packs take this long: false, then.
  [[nodiscard]] bool price_below(Schedule& out, double most, ShardingPolicy policy) {
    pricer_.price_slices(out.forward, Pass::forward, out.forward_times);
    pricer_.price_slices(out.backward, Pass::backward, out.backward_times);
    if (fit_search_.surely_takes(out, most)) return false;
    pricer_.share(lengths_, out.forward, out.backward, out.forward_times, out.backward_times, policy);
    return true;
  }

  /// Prices the packs that `out` holds; `sharing` of its times already says how ranks share them.
  void price_as_shared(Schedule& out) {
    pricer_.price_as_shared(out.forward, Pass::forward, out.forward_times);
    pricer_.price_as_shared(out.backward, Pass::backward, out.backward_times);
  }

  /// Orders and times packs with given recomputed and offloaded layers. The seconds are infinite if that does not fit,
  /// even with a smaller lead. @throws InvalidInput if layers are offloaded and the cost model does not price that.
  void operator()(Schedule& out, const Recompute& recompute, const ScheduleOptions& options = {}) {
    price(out, options.sharding);
    schedule_priced(out, recompute, options);
  }

  /// The same for packs that are priced already.
  void schedule_priced(Schedule& out, const Recompute& recompute, const ScheduleOptions& options = {}) {
    begin(out);
    trials_->load(out, options);
    out.seconds = infinite;
    LeadTable leads = trials_->full_leads();
    const bool full = trials_->fits(leads, recompute);
    if (!full && !(options.fit == FitPolicy::fastest && trials_->limit(recompute, leads))) return;
    out.memory_bound = !full;
    trials_->time(leads, recompute, out);
  }

  /// Lets each backward pack of a priced schedule recompute what it needs, stage by stage (`choose_checkpoints`). Tries
  /// full leads, the schedule's own and, if it offloads layers, those that it would have without. Keeps what shortens
  /// the schedule, or makes it fit.
  /// @param out as another call for the same options left it. @param solve as `MilpSolver`. @param solver its options.
  /// @returns what was chosen for the full leads; nothing if these can't fit so.
  /// O(tasks * window), and two runs of the solver; four if layers may be offloaded; six, and a schedule, if some are.
  template <MilpSolver S>
  std::optional<Checkpoints> checkpoint_each_pack(Schedule& out, const ScheduleOptions& options, S&& solve,
                                                  const MilpOptions& solver = {}) {
    std::optional<LeadTable> unmoved;
    if (out.recompute.offloads()) unmoved = leads_without_offload(out, options);
    price_without_recompute(out);
    begin(out);
    trials_->load(out, options);
    std::optional<Checkpoints> chosen;
    if (memory_.recomputes()) {
      if (options.offload) trials_->recompute_prices().allow_offload(out);
      const LeadTable& full = trials_->full_leads();
      const LeadTable before = out.fits() ? out.leads : full;
      chosen = checkpoints_.improve_with(full, out, solve, solver);
      if (before != full) (void)checkpoints_.improve_with(before, out, solve, solver);
      if (unmoved && *unmoved != full && *unmoved != before)
        (void)checkpoints_.improve_with(*unmoved, out, solve, solver);
    }
    trials_->set_recompute(out.recompute, out);
    return chosen;
  }

  /// What each backward pack of some rows would recompute with full leads, without timing them.
  /// @param packs as `price` takes them. @returns nothing if these can't fit so. O(tasks * window) and that of the solver.
  template <MilpSolver S>
  [[nodiscard]] std::optional<Checkpoints> checkpoints(Schedule& packs, const ScheduleOptions& options,
                                                       S&& solve, const MilpOptions& solver = {}) {
    price(packs, options.sharding);
    trials_->load(packs, options);
    trials_->recompute_prices().forget_layers();
    return checkpoints_.choose(trials_->full_leads(), packs, PackWorkspace::recomputing, solve, solver);
  }

  /// Peak bytes of packs with full leads and this recomputation, whether that fits or not, [pipeline][stage].
  [[nodiscard]] std::vector<std::vector<double>> peak_bytes(Schedule packs, const Recompute& recompute,
                                                            const ScheduleOptions& options) {
    trials_->load(packs, options);
    packs.leads = trials_->full_leads();
    packs.recompute = recompute;
    return peak_bytes(packs);
  }

  /// Peak bytes of a schedule that was made from these lengths and this memory, [pipeline][stage].
  [[nodiscard]] std::vector<std::vector<double>> peak_bytes(const Schedule& schedule) {
    MemoryFit& fit = trials_->fit();
    fit.load(schedule);
    std::vector<std::vector<double>> peaks(schedule.pipelines);
    for (std::size_t p = 0; p < peaks.size(); ++p) {
      for (std::size_t s = 0; s < schedule.stages(); ++s)
        peaks[p].push_back(fit.peak_bytes(p, s, schedule.leads, schedule.recompute));
    }
    return peaks;
  }
  /// The same schedule with its peaks of memory. @pre as for `peak_bytes`. Complexity: the same.
  [[nodiscard]] Schedule with_peaks(Schedule schedule) {
    schedule.peak_bytes = peak_bytes(schedule);
    return schedule;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Forgets what was found of an earlier schedule of these packs.
  void begin(Schedule& out) {
    out.peak_bytes.clear();
    trials_->recompute_prices().begin(out);
  }

  /// Resets the packs' seconds to those without recomputation and offloading.
  void price_without_recompute(Schedule& out) {
    if (out.recompute.offloads()) pricer_.price_as_shared(out.forward, Pass::forward, out.forward_times);
    pricer_.price_as_shared(out.backward, Pass::backward, out.backward_times);
  }

  /// The leads that `schedule_priced` finds for these packs without offloading; none if nothing fits.
  [[nodiscard]] std::optional<LeadTable> leads_without_offload(Schedule packs, ScheduleOptions options) {
    price_without_recompute(packs);
    options.offload = false;
    schedule_priced(packs, options);
    if (!packs.fits()) return std::nullopt;
    return std::move(packs.leads);
  }

  std::span<const Tokens> lengths_;
  const Memory& memory_;
  PackPricer pricer_;
  std::unique_ptr<ScheduleTrials> trials_;  // others refer to it, also when the scheduler moves
  FitSearch fit_search_;
  CheckpointSearch checkpoints_;
};

}  // namespace slimpack
