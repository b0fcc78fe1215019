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
#include "slimpack/schedule/makespan.hpp"
#include "slimpack/schedule/memory_fit.hpp"
#include "slimpack/schedule/order_leads.hpp"
#include "slimpack/schedule/recompute_prices.hpp"
#include "slimpack/schedule/schedule.hpp"
#include "slimpack/schedule/schedule_options.hpp"

namespace slimpack {

/// Schedules any packs of both passes. Keeps its memory between calls.
class Scheduler {
 public:
  /// @param lengths of all samples. @param prices, memory of the pipelines' kind. All have to outlive this.
  Scheduler(std::span<const Tokens> lengths, GroupPrices& prices, const Memory& memory)
      : lengths_(lengths),
        memory_(memory),
        prices_(prices),
        pricer_(prices),
        recompute_prices_(prices, memory),
        fit_(lengths, memory, static_cast<std::size_t>(prices.alone().ranks())),
        least_seconds_(memory.stages()) {}

  /// Prices, orders and times the packs that `out` holds, and recomputes as much as memory requires.
  /// @param out its `pipelines`, `forward` and `backward` are given: each token of each sample is in one pack of each
  /// pass, in token order forward, in reverse order backward, and all packs of a sample name the same pipelines.
  /// @param most gives up if the schedule takes this long or longer; its seconds are then infinite.
  /// O(tasks) plus that of `PackPricer` if memory suffices; otherwise a multiple of that.
  void operator()(Schedule& out, const ScheduleOptions& options = {},
                  double most = std::numeric_limits<double>::infinity()) {
    if (!price_below(out, most)) return give_up(out);
    schedule_priced(out, options, most);
  }

  /// The same for packs that are priced already: `out.forward_times` and `out.backward_times` hold their prices.
  void schedule_priced(Schedule& out, const ScheduleOptions& options = {},
                       double most = std::numeric_limits<double>::infinity()) {
    recompute_prices_.begin(out);
    best_of_fits(out, options, most);
  }

  /// Decides how ranks share the packs that `out` holds, and prices them. @param policy as `PackPricer` takes it.
  void price(Schedule& out, ShardingPolicy policy = ShardingPolicy::adaptive) {
    pricer_(lengths_, out.forward, out.backward, out.forward_times, out.backward_times, policy);
  }

  /// The same, unless any schedule of the packs takes this long: false, then.
  [[nodiscard]] bool price_below(Schedule& out, double most) {
    pricer_.price_slices(out.forward, Pass::forward, out.forward_times);
    pricer_.price_slices(out.backward, Pass::backward, out.backward_times);
    if (most < infinite && least_seconds_(out) >= most) return false;
    pricer_.share(lengths_, out.forward, out.backward, out.forward_times, out.backward_times);
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
    price(out);
    schedule_priced(out, recompute, options);
  }

  /// The same for packs that are priced already.
  void schedule_priced(Schedule& out, const Recompute& recompute, const ScheduleOptions& options = {}) {
    recompute_prices_.begin(out);
    prepare(out, options);
    out.seconds = infinite;
    LeadTable leads = full_;
    const bool full = fits(leads, recompute);
    if (!full && !(options.fit == FitPolicy::fastest && fit_.limit(required_, recompute, leads))) return;
    out.memory_bound = !full;
    time(leads, recompute, out);
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
    recompute_prices_.begin(out);
    prepare(out, options);
    std::optional<Checkpoints> chosen;
    if (memory_.recomputes()) {
      if (options.offload) recompute_prices_.allow_offload(out);
      const LeadTable before = out.fits() ? out.leads : full_;
      chosen = checkpoint(full_, out, solve, solver);
      if (before != full_) (void)checkpoint(before, out, solve, solver);
      if (unmoved && *unmoved != full_ && *unmoved != before) (void)checkpoint(*unmoved, out, solve, solver);
    }
    add_recompute(out.recompute, out);
    return chosen;
  }

  /// What each backward pack of some rows would recompute with full leads, without timing them.
  /// @param packs as `price` takes them. @returns nothing if these can't fit so. O(tasks * window) and that of the solver.
  template <MilpSolver S>
  [[nodiscard]] std::optional<Checkpoints> checkpoints(Schedule& packs, const ScheduleOptions& options,
                                                       S&& solve, const MilpOptions& solver = {}) {
    price(packs);
    prepare(packs, options);
    recompute_prices_.forget_layers();
    return choose(full_, packs, PackWorkspace::recomputing, solve, solver);
  }

  /// Peak bytes of packs with full leads and this recomputation, whether that fits or not, [pipeline][stage].
  [[nodiscard]] std::vector<std::vector<double>> peak_bytes(Schedule packs, const Recompute& recompute,
                                                            const ScheduleOptions& options) {
    prepare(packs, options);
    packs.leads = full_;
    packs.recompute = recompute;
    return peak_bytes(packs);
  }

  /// Peak bytes of a schedule that was made from these lengths and this memory, [pipeline][stage].
  [[nodiscard]] std::vector<std::vector<double>> peak_bytes(const Schedule& schedule) {
    fit_.load(schedule);
    std::vector<std::vector<double>> peaks(schedule.pipelines);
    for (std::size_t p = 0; p < peaks.size(); ++p) {
      for (std::size_t s = 0; s < schedule.stages(); ++s)
        peaks[p].push_back(fit_.peak_bytes(p, s, schedule.leads, schedule.recompute));
    }
    return peaks;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

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

  /// Finds the full leads, and loads the packs for questions about memory.
  void prepare(const Schedule& out, const ScheduleOptions& options) {
    if (options.offload) require_host(prices_, memory_);
    required_rows(lengths_, out.forward, out.backward, ended_, required_);
    make_leads(options.order, options, out);
    fit_.load(out);
  }

  void make_leads(PassOrder order, const ScheduleOptions& options, const Schedule& out) {
    order_leads(order, options.unit_ends, required_, out.forward.rows.size(), memory_.stages(), full_);
  }

  [[nodiscard]] bool fits(const LeadTable& leads, const Recompute& recompute) {
    for (std::size_t s = 0; s < memory_.stages(); ++s) {
      if (!fit_.fits(leads, s, recompute)) return false;
    }
    return true;
  }

  void best_of_fits(Schedule& out, const ScheduleOptions& options, double most) {
    give_up(out);
    if (least_seconds_(out) >= most) return;
    prepare(out, options);
    out.recompute = Recompute(std::vector<std::int32_t>(memory_.stages(), 0));
    best_of_full_leads(out, options, most);
    if (options.eager_if_faster) {
      const bool memory_bound = out.memory_bound;
      make_leads(PassOrder::eager, options, out);
      add_recompute({}, out);
      const double eager = makespan(full_, out);
      const Recompute nothing(std::vector<std::int32_t>(memory_.stages(), 0));
      const bool may_help = eager < out.unlimited && (eager < most || !fits(full_, nothing));
      if (may_help) best_of_full_leads(out, options, most);
      out.memory_bound = memory_bound;
    }
    add_recompute(out.recompute, out);
    reject(out, most);
  }

  /// Times the packs with the full leads or, if these do not fit, with what does. Keeps what is faster than `out`; the packs'
  /// seconds are then those of the last candidate.
  void best_of_full_leads(Schedule& out, const ScheduleOptions& options, double most) {
    const Recompute nothing(std::vector<std::int32_t>(memory_.stages(), 0));
    add_recompute(nothing, out);
    const double unlimited = makespan(full_, out);
    out.unlimited = std::min(out.unlimited, unlimited);
    const std::vector<std::int32_t> needed = full_lead_recompute();
    const auto [least, greatest] = std::minmax_element(needed.begin(), needed.end());
    if (*least == 0 && *greatest == 0) return keep_if_faster(full_, nothing, unlimited, out);
    out.memory_bound = true;
    if (*least >= 0) time(full_, Recompute(needed), out);
    if (options.fit == FitPolicy::fastest) try_smaller_leads(needed, out);
    const bool few_held = held_rows(full_) <= options.most_held_rows;
    const auto may_help = [&] { return memory_.recomputes() && unlimited < std::min(most, out.seconds); };
    if (options.each_pack && few_held && !(options.each_pack_if_needed && out.fits()) && may_help() &&
        each_pack_takes(out) < std::min(most, out.seconds))
      try_each_pack(out);
    if (options.offload && may_help()) try_offload(few_held, out);
  }

  static void give_up(Schedule& out) {
    out.seconds = out.unlimited = infinite;
    out.memory_bound = false;
  }

  static void reject(Schedule& out, double most) {
    if (out.seconds >= most) out.seconds = infinite;
  }

  /// Seconds that the packs take at least with the full leads and the recomputation that windows ask for.
  [[nodiscard]] double each_pack_takes(Schedule& out) {
    least_recomputed(full_, memory_, fit_, more_);
    recompute_prices_.to_least_seconds(out, fit_.tokens(), more_);
    add_recompute({}, out);
    return least_seconds_(out, more_);
  }

  /// Lets each pack recompute what it needs, with full leads.
  void try_each_pack(Schedule& out) {
    const auto windows = checkpoint_windows(full_, memory_, fit_, windows_);
    const std::optional<Recompute> recompute = quick_checkpoints(out.backward, windows, memory_);
    if (recompute && fits(full_, *recompute)) time(full_, *recompute, out);
  }

  /// Lets layers wait in the host's memory in place of recomputing them, if that is faster, or if nothing fits otherwise.
  /// @param each_pack whether packs may do so unlike each other.
  void try_offload(bool each_pack, Schedule& out) {
    recompute_prices_.allow_offload(out);
    if (each_pack) {
      const auto windows = checkpoint_windows(full_, memory_, fit_, windows_, PackWorkspace::offloading);
      if (const auto needed = quick_checkpoints(out.backward, windows, memory_)) offload(full_, *needed, out);
    }
    if (out.fits()) return offload(LeadTable{out.leads}, Recompute{out.recompute}, out);
    const std::size_t stages = memory_.stages(), packs = out.backward.packs.size();
    std::vector<std::int32_t> all;
    for (std::size_t i = 0; i < packs * stages; ++i) all.push_back(memory_.recompute_limit(i % stages));
    for (const Recompute& most :
         {Recompute(stages, std::vector<std::int32_t>(all.size(), 0), all), Recompute(stages, all, all)}) {
      trial_ = full_;
      if (fits(full_, most) || fit_.limit(required_, most, trial_)) time(trial_, most, out);
    }
  }

  /// Times the packs with these leads and the cheapest choice for each layer that is recomputed.
  void offload(const LeadTable& leads, const Recompute& recompute, Schedule& out) {
    const auto fits_stage = [&](std::size_t s, const Recompute& trial) { return fit_.fits(leads, s, trial); };
    const Recompute chosen = choose_offload(out.backward.packs.size(), memory_, recompute,
                                            recompute_prices_.recompute_seconds(out),
                                            recompute_prices_.offload_seconds(), fits_stage);
    if (chosen.offloads() && fits(leads, chosen)) time(leads, chosen, out);
  }

  /// What each pack needs to recompute with these leads. @param workspace that the packs take.
  template <MilpSolver S>
  std::optional<Checkpoints> choose(const LeadTable& leads, const Schedule& out, PackWorkspace workspace,
                                    S&& solve, const MilpOptions& solver) {
    const auto windows = checkpoint_windows(leads, memory_, fit_, windows_, workspace);
    const std::span<const double> layer = recompute_prices_.recompute_seconds(out);
    std::vector<double> seconds(layer.begin(), layer.end());
    if (workspace == PackWorkspace::offloading) {
      const std::span<const double> offload = recompute_prices_.offload_seconds();
      for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = std::min(seconds[i], offload[i]);
    }
    const std::vector<double> cost = diagonal_costs(out.backward, memory_.stages(), seconds);
    return choose_checkpoints(out.backward, windows, memory_, cost, solve, solver);
  }

  /// Times the packs with these leads and what each pack needs to recompute.
  template <MilpSolver S>
  std::optional<Checkpoints> checkpoint(const LeadTable& leads, Schedule& out, S&& solve,
                                        const MilpOptions& solver) {
    std::optional<Checkpoints> chosen = choose(leads, out, PackWorkspace::recomputing, solve, solver);
    if (chosen && fits(leads, chosen->recompute)) time(leads, chosen->recompute, out);
    if (!recompute_prices_.may_offload()) return chosen;
    const auto moved = choose(leads, out, PackWorkspace::offloading, solve, solver);
    if (moved) offload(leads, moved->recompute, out);
    return chosen;
  }

  /// Layers on each stage that the full lead needs; -1 where none suffice.
  [[nodiscard]] std::vector<std::int32_t> full_lead_recompute() {
    std::vector<std::int32_t> layers;
    for (std::size_t s = 0; s < memory_.stages(); ++s) layers.push_back(fit_.least_recompute(full_, s));
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
      trial_ = full_;
      if (fit_.limit(required_, layers, trial_)) time(trial_, Recompute(std::move(layers)), out);
    }
  }

  /// Times an order with its recomputation, and keeps both if they are faster than what `out` has. The packs' seconds are
  /// those of this recomputation then.
  void time(const LeadTable& leads, const Recompute& recompute, Schedule& out) {
    add_recompute(recompute, out);
    keep_if_faster(leads, recompute, makespan(leads, out), out);
  }

  /// The seconds of an order. @pre `add_recompute` was called for its recomputation.
  [[nodiscard]] double makespan(const LeadTable& leads, const Schedule& out) {
    return makespan_(out.forward, out.forward_times, out.backward, out.backward_times, leads, out.pipelines);
  }

  static void keep_if_faster(const LeadTable& leads, const Recompute& recompute, double seconds,
                             Schedule& out) {
    if (seconds >= out.seconds) return;
    out.seconds = seconds;
    out.leads = leads;
    out.recompute = recompute;
  }

  /// Sets the packs' seconds to those with recomputation and offloading.
  void add_recompute(const Recompute& recompute, Schedule& out) {
    recompute_prices_.set(recompute, fit_, out);
  }

  std::span<const Tokens> lengths_;
  const Memory& memory_;
  GroupPrices& prices_;
  PackPricer pricer_;
  RecomputePrices recompute_prices_;
  MemoryFit fit_;
  Makespan makespan_;
  std::vector<std::uint32_t> ended_, required_;
  LeadTable full_, trial_;
  std::vector<CheckpointWindows> windows_;  // memory of `checkpoint_windows`
  std::vector<double> more_;                // [pipeline * stages + stage] seconds of recomputation, at least
  LeastSeconds least_seconds_;
};

}  // namespace slimpack
