#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/schedule/makespan.hpp"
#include "slimpack/schedule/memory_fit.hpp"
#include "slimpack/schedule/offload_choice.hpp"
#include "slimpack/schedule/order_leads.hpp"
#include "slimpack/schedule/recompute_prices.hpp"
#include "slimpack/schedule/schedule.hpp"
#include "slimpack/schedule/schedule_options.hpp"

namespace slimpack {

/// Times the packs of one schedule in one order after another, with one recomputation after another, and keeps what is
/// fastest. Keeps its memory between schedules.
class ScheduleTrials {
 public:
  /// @param lengths of all samples. @param prices, memory of the pipelines' kind. All have to outlive this.
  ScheduleTrials(std::span<const Tokens> lengths, GroupPrices& prices, const Memory& memory)
      : lengths_(lengths),
        memory_(memory),
        prices_(prices),
        recompute_prices_(prices, memory),
        fit_(lengths, memory, static_cast<std::size_t>(prices.alone().ranks())) {}

  [[nodiscard]] const Memory& memory() const { return memory_; }
  [[nodiscard]] MemoryFit& fit() { return fit_; }
  [[nodiscard]] RecomputePrices& recompute_prices() { return recompute_prices_; }
  /// As many rows ahead as the order that was made last allows.
  [[nodiscard]] const LeadTable& full_leads() const { return full_; }
  /// Forward rows that each backward row needs (`required_rows`).
  [[nodiscard]] std::span<const std::uint32_t> required() const { return required_; }

  /// Makes the leads of the options' order, and loads the packs for questions about memory.
  /// @throws InvalidInput if layers may be offloaded and the models do not price that.
  void load(const Schedule& packs, const ScheduleOptions& options) {
    if (options.offload) require_host(prices_, memory_);
    required_rows(lengths_, packs.forward, packs.backward, ended_, required_);
    make_leads(options.order, options, packs);
    fit_.load(packs);
  }

  /// Makes the leads of another order of the same packs.
  void make_leads(PassOrder order, const ScheduleOptions& options, const Schedule& packs) {
    order_leads(order, options.unit_ends, required_, packs.forward.rows.size(), memory_.stages(), full_);
  }

  [[nodiscard]] bool fits(const LeadTable& leads, const Recompute& recompute) {
    for (std::size_t s = 0; s < memory_.stages(); ++s) {
      if (!fit_.fits(leads, s, recompute)) return false;
    }
    return true;
  }

  /// Lowers leads until all stages fit. @returns whether they do. @param recompute a `Recompute`, or fewest layers that each
  /// stage recomputes, which are raised.
  template <class R>
  [[nodiscard]] bool limit(R& recompute, LeadTable& leads) {
    return fit_.limit(required_, recompute, leads);
  }

  /// Times an order with its recomputation, and keeps both if they are faster than what `out` has. The packs' seconds are
  /// those of this recomputation then.
  void time(const LeadTable& leads, const Recompute& recompute, Schedule& out) {
    set_recompute(recompute, out);
    keep_if_faster(leads, recompute, makespan(leads, out), out);
  }

  /// The same, but layers that would be recomputed wait in the host's memory where that is faster (`choose_offload`). Keeps
  /// nothing if none does, or the offloaded layers do not fit.
  void time_offloaded(const LeadTable& leads, const Recompute& recompute, Schedule& out) {
    const auto fits_stage = [&](std::size_t s, const Recompute& trial) { return fit_.fits(leads, s, trial); };
    const Recompute chosen = choose_offload(out.backward.packs.size(), memory_, recompute,
                                            recompute_prices_.recompute_seconds(out),
                                            recompute_prices_.offload_seconds(), fits_stage);
    if (chosen.offloads() && fits(leads, chosen)) time(leads, chosen, out);
  }

  /// Sets the packs' seconds to those with recomputation and offloading.
  void set_recompute(const Recompute& recompute, Schedule& out) {
    recompute_prices_.set(recompute, fit_, out);
  }

  /// The seconds of an order. @pre `set_recompute` was called for its recomputation.
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

 private:
  std::span<const Tokens> lengths_;
  const Memory& memory_;
  GroupPrices& prices_;
  RecomputePrices recompute_prices_;
  MemoryFit fit_;
  Makespan makespan_;
  std::vector<std::uint32_t> ended_, required_;
  LeadTable full_;
};

}  // namespace slimpack
