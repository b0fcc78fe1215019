#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/schedule/checkpointing.hpp"
#include "slimpack/schedule/schedule_trials.hpp"

namespace slimpack {

/// Lets each backward pack of a schedule recompute what it needs, stage by stage, as a mixed-integer program chooses
/// (`choose_checkpoints`). Keeps its memory between schedules.
class CheckpointSearch {
 public:
  /// @param trials has loaded the packs that calls are about, and has to outlive this.
  explicit CheckpointSearch(ScheduleTrials& trials) : trials_(trials) {}

  /// What each pack needs to recompute with these leads; nothing if they can't fit so. @param workspace that the packs take.
  /// @param solve as `MilpSolver`. @param solver its options. O(tasks * window) and that of the solver.
  template <MilpSolver S>
  [[nodiscard]] std::optional<Checkpoints> choose(const LeadTable& leads, const Schedule& packs,
                                                  PackWorkspace workspace, S&& solve,
                                                  const MilpOptions& solver) {
    const Memory& memory = trials_.memory();
    RecomputePrices& prices = trials_.recompute_prices();
    const auto windows = checkpoint_windows(leads, memory, trials_.fit(), windows_, workspace);
    const std::span<const double> layer = prices.recompute_seconds(packs);
    std::vector<double> seconds(layer.begin(), layer.end());
    if (workspace == PackWorkspace::offloading) {
      const std::span<const double> offload = prices.offload_seconds();
      for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = std::min(seconds[i], offload[i]);
    }
    const std::vector<double> cost = diagonal_costs(packs.backward, memory.stages(), seconds);
    return choose_checkpoints(packs.backward, windows, memory, cost, solve, solver);
  }

  /// Times the packs with these leads and what each pack needs to recompute; if layers may be offloaded, with that as well.
  /// Keeps what is faster than `out`. @returns what was chosen without offloading.
  template <MilpSolver S>
  std::optional<Checkpoints> improve_with(const LeadTable& leads, Schedule& out, S&& solve,
                                          const MilpOptions& solver) {
    std::optional<Checkpoints> chosen = choose(leads, out, PackWorkspace::recomputing, solve, solver);
    if (chosen && trials_.fits(leads, chosen->recompute)) trials_.time(leads, chosen->recompute, out);
    if (!trials_.recompute_prices().may_offload()) return chosen;
    const auto moved = choose(leads, out, PackWorkspace::offloading, solve, solver);
    if (moved) trials_.time_offloaded(leads, moved->recompute, out);
    return chosen;
  }

 private:
  ScheduleTrials& trials_;
  std::vector<CheckpointWindows> windows_;  // memory of `checkpoint_windows`
};

}  // namespace slimpack
