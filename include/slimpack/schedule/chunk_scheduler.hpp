#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/milp/covering.hpp"
#include "slimpack/schedule/chunk_schedule_options.hpp"
#include "slimpack/schedule/scheduler.hpp"
#include "slimpack/schedule/sequence_groups.hpp"
#include "slimpack/slicing/chunk_sequences.hpp"

namespace slimpack {

/// How chunks were scheduled.
struct ChunkSchedule {
  Schedule schedule;
  std::size_t groups = 1;        ///< pipelines one after another
  ScheduleOptions options = {};  ///< with which it was made
};

namespace detail {

/// Chunks of both passes: sequences one after another, each backwards in the backward pass.
struct ChunkPasses {
  Packs forward, backward;
};

[[nodiscard]] inline ChunkPasses chunk_passes(const Packs& chunks, const Ragged<PackId>& sequences,
                                              std::span<const std::uint32_t> order) {
  ChunkPasses out;
  for (const std::uint32_t q : order) {
    const std::span<const PackId> own = sequences[q];
    for (const PackId k : own) out.forward.repeat_row(1, chunks[k]);
    for (std::size_t i = own.size(); i-- > 0;) out.backward.repeat_row(1, chunks[own[i]]);
  }
  return out;
}

}  // namespace detail

/// Schedules chunks on one pipeline (InfiniPipe, section 3.3). Sequences run by rising or falling numbers of chunks, as one
/// pipeline or as several (`group_sequences`). Keeps its memory between calls.
class ChunkScheduler {
 public:
  /// @param lengths of all samples. @param prices, memory of the pipelines' kind. All have to outlive this.
  ChunkScheduler(std::span<const Tokens> lengths, GroupPrices& prices, const Memory& memory,
                 const ChunkScheduleOptions& options = {})
      : lengths_(lengths), memory_(memory), options_(options), scheduler_(lengths, prices, memory) {}

  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
  [[nodiscard]] ChunkScheduleOptions& options() { return options_; }

  /// The stage that exceeds its memory most, and what it needs there, if chunks run by rising numbers and recompute all
  /// that they may.
  struct Shortage {
    std::size_t stage = 0;
    double bytes = 0.0;  ///< of the device
  };
  [[nodiscard]] Shortage shortage(const Packs& chunks) {
    sequences_ = chunk_sequences(chunks, lengths_);
    Schedule packs = rows(chunks, rising_order());
    const auto peaks =
        scheduler_.peak_bytes(std::move(packs), uniform(options_.recompute != ChunkRecompute::none),
                              {.order = options_.orders.front()});
    const auto most = std::max_element(peaks[0].begin(), peaks[0].end());
    return {static_cast<std::size_t>(most - peaks[0].begin()), *most};
  }

  /// The fastest schedule of these chunks. Its seconds are infinite if none fits into memory, or takes less than `most`.
  /// @param chunks as `chunk_sequences` takes them.
  /// O(slices + chunks * stages) for each number of kept chunks, and where memory is short, the solver's time for each group
  /// that is tried.
  [[nodiscard]] ChunkSchedule operator()(const Packs& chunks,
                                         double most = std::numeric_limits<double>::infinity()) {
    best_ = {};
    most_ = most;
    sequences_ = chunk_sequences(chunks, lengths_);
    const std::vector<std::uint32_t> order = rising_order();
    const bool equal = order.empty() || sequences_[order.front()].size() == sequences_[order.back()].size();
    const bool any_kept = options_.recompute == ChunkRecompute::oldest && options_.kept == 0;
    kept_ = any_kept ? 1 : options_.kept;
    try_orders(chunks, order, !equal);
    const std::size_t longest = order.empty() ? 1 : sequences_[order.back()].size();
    while (any_kept && kept_ < longest) {
      kept_ = std::min(2 * kept_, longest);
      try_orders(chunks, order, !equal);
    }
    if (options_.groups && options_.recompute == ChunkRecompute::adaptive && memory_bound_ && !equal)
      try_groups(chunks, order);
    return std::move(best_);
  }

  /// Solves the checkpointing program of a schedule, unless memory's limit costs it next to nothing as it is: what was chosen
  /// without a solver is mostly as good.
  void refine(ChunkSchedule& found) {
    constexpr double little = 1e-3;
    Schedule& own = found.schedule;
    const bool worth = own.fits() && own.memory_bound && own.seconds > (1.0 + little) * own.unlimited;
    if (options_.recompute != ChunkRecompute::adaptive || !worth) return;
    (void)scheduler_.checkpoint_each_pack(own, found.options, solver(), options_.solver.solver);
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Sequences by rising numbers of chunks.
  [[nodiscard]] std::vector<std::uint32_t> rising_order() const {
    std::vector<std::uint32_t> order(sequences_.size());
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return sequences_[a].size() < sequences_[b].size(); });
    return order;
  }

  /// One pipeline of all sequences. @param unequal whether numbers of chunks differ.
  void try_orders(const Packs& chunks, std::vector<std::uint32_t> order, bool unequal) {
    memory_bound_ = false;
    // Without cuts, the steady order is what others are, unless there are no others.
    const bool steady = sequences_.values().size() > sequences_.size() ||
                        std::all_of(options_.orders.begin(), options_.orders.end(),
                                    [](PassOrder each) { return each == PassOrder::steady; });
    for (const bool falling : {false, true}) {
      if (falling && !unequal) continue;
      if (falling) std::reverse(order.begin(), order.end());
      Schedule packs = rows(chunks, order);
      if (!scheduler_.price_below(packs, limit(), ShardingPolicy::adaptive)) continue;
      for (const PassOrder each : options_.orders) {
        if (each != PassOrder::steady || steady)
          try_schedule(packs, {.order = each, .offload = options_.offload}, 1);
      }
    }
  }

  /// Groups of sequences with like numbers of chunks, as far as they recompute less in pipelines of their own.
  void try_groups(const Packs& chunks, std::span<const std::uint32_t> order) {
    std::vector<std::uint32_t> class_ends;
    for (std::size_t i = 1; i <= order.size(); ++i) {
      if (i == order.size() || sequences_[order[i]].size() != sequences_[order[i - 1]].size())
        class_ends.push_back(static_cast<std::uint32_t>(i));
    }
    const auto begin_of = [&](std::uint32_t c) { return c == 0 ? 0U : class_ends[c - 1]; };
    const auto cost = [&](std::uint32_t begin, std::uint32_t end) {
      Schedule group = rows(chunks, order.subspan(begin_of(begin), begin_of(end) - begin_of(begin)));
      const auto chosen =
          scheduler_.checkpoints(group, {.order = PassOrder::steady}, solver(), options_.solver.solver);
      return chosen ? chosen->cost : infinite;
    };
    const double filling = filling_seconds(chunks, order);
    // Groups save recomputation alone, which must be worth filling the pipeline once more.
    if (best_.schedule.seconds - best_.schedule.unlimited <= filling) return;
    const auto classes = static_cast<std::uint32_t>(class_ends.size());
    const SequenceGroups groups = group_sequences(classes, filling, cost);
    if (groups.ends.size() < 2) return;
    std::vector<std::uint32_t> unit_ends;
    std::uint32_t row = 0, place = 0;
    for (const std::uint32_t end : groups.ends) {
      for (; place < begin_of(end); ++place)
        row += static_cast<std::uint32_t>(sequences_[order[place]].size());
      unit_ends.push_back(row);
    }
    Schedule packs = rows(chunks, order);
    if (!scheduler_.price_below(packs, limit(), ShardingPolicy::adaptive)) return;
    for (const PassOrder each : {PassOrder::steady, PassOrder::packflow})
      try_schedule(packs, {.order = each, .offload = options_.offload, .unit_ends = unit_ends},
                   groups.ends.size());
    if (best_.groups > 1) refine(best_);
  }

  [[nodiscard]] CoveringSolver solver() const { return {options_.solver}; }

  /// Chunks in rows, not priced yet.
  [[nodiscard]] Schedule rows(const Packs& chunks, std::span<const std::uint32_t> order) const {
    detail::ChunkPasses passes = detail::chunk_passes(chunks, sequences_, order);
    Schedule out;
    out.pipelines = 1;
    out.forward = in_rows(std::move(passes.forward));
    out.backward = in_rows(std::move(passes.backward));
    return out;
  }

  /// What a pipeline more costs: a mean forward and backward chunk on all stages but one.
  [[nodiscard]] double filling_seconds(const Packs& chunks, std::span<const std::uint32_t> order) {
    Schedule all = rows(chunks, order);
    scheduler_.price(all);
    const std::size_t stages = memory_.stages();
    double sum = 0.0;
    for (const PassTimes* times : {&all.forward_times, &all.backward_times}) {
      for (std::size_t k = 0; k < chunks.size(); ++k) {
        for (std::size_t s = 0; s + 1 < stages; ++s) sum += times->seconds[k * stages + s];
      }
    }
    return sum / static_cast<double>(std::max<std::size_t>(1, chunks.size()));
  }

  /// A schedule has to take less.
  [[nodiscard]] double limit() const { return std::min(most_, best_.schedule.seconds); }

  /// Schedules packs, priced already, as the options say, and keeps what is fastest.
  void try_schedule(const Schedule& packs, const ScheduleOptions& options, std::size_t groups) {
    ChunkSchedule trial{.schedule = packs, .groups = groups, .options = options};
    switch (options_.recompute) {
      case ChunkRecompute::none:
        scheduler_.schedule_priced(trial.schedule, uniform(false), options);
        break;
      case ChunkRecompute::full:
        scheduler_.schedule_priced(trial.schedule, uniform(true), options);
        break;
      case ChunkRecompute::oldest:
        scheduler_.schedule_priced(trial.schedule, all_but_last(packs), options);
        break;
      case ChunkRecompute::per_stage:
        scheduler_.schedule_priced(trial.schedule, options, limit());
        break;
      case ChunkRecompute::adaptive:
        adapt(packs, options, trial.schedule);
        break;
    }
    memory_bound_ = memory_bound_ || trial.schedule.memory_bound;
    if (trial.schedule.seconds < limit()) best_ = std::move(trial);
  }

  /// Whatever is recomputed, a schedule takes at least as long as without memory's limit. @param out a copy of the packs.
  void adapt(const Schedule& packs, ScheduleOptions options, Schedule& out) {
    options.each_pack = true;
    scheduler_.schedule_priced(out, options, limit());
    if (!out.memory_bound || out.unlimited >= limit()) return;
    Schedule full = packs;
    scheduler_.schedule_priced(full, uniform(true), options);
    if (full.seconds < out.seconds) out = std::move(full);
  }

  [[nodiscard]] Recompute uniform(bool all) const {
    std::vector<std::int32_t> layers;
    for (std::size_t s = 0; s < memory_.stages(); ++s) layers.push_back(all ? memory_.recompute_limit(s) : 0);
    return Recompute(std::move(layers));
  }

  /// All layers of the chunks of a sequence but the last `kept_`, which run backward first.
  [[nodiscard]] Recompute all_but_last(const Schedule& packs) const {
    const std::size_t stages = memory_.stages();
    std::vector<std::int32_t> layers(packs.backward.packs.size() * stages, 0);
    for (std::size_t k = 0, place = 0; k < packs.backward.packs.size(); ++k) {
      const auto own = packs.backward.packs[k];
      const auto cut = std::find_if(
          own.begin(), own.end(), [&](const Slice& slice) { return slice.size() < lengths_[slice.sample]; });
      place = cut == own.end() || cut->end == lengths_[cut->sample] ? 0 : place + 1;
      for (std::size_t s = 0; place >= kept_ && s < stages; ++s)
        layers[k * stages + s] = memory_.recompute_limit(s);
    }
    return {stages, std::move(layers)};
  }

  std::span<const Tokens> lengths_;
  const Memory& memory_;
  ChunkScheduleOptions options_;
  Scheduler scheduler_;
  Ragged<PackId> sequences_;
  ChunkSchedule best_;
  double most_ = infinite;
  std::size_t kept_ = 0;       // chunks of a sequence that are not recomputed
  bool memory_bound_ = false;  // of any schedule without groups
};

}  // namespace slimpack
