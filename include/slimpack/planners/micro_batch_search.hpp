#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/cost/priced_models.hpp"
#include "slimpack/partition/equal_counts.hpp"
#include "slimpack/plan/assemble.hpp"
#include "slimpack/planners/micro_batch_options.hpp"
#include "slimpack/schedule/lower_bound.hpp"
#include "slimpack/schedule/pack_orders.hpp"
#include "slimpack/sharding/shardable.hpp"

namespace slimpack::detail {

/// Whether a pack without tokens takes time on every stage.
[[nodiscard]] inline bool empty_packs_take_time(const Prices& prices) {
  std::vector<double> seconds(prices.stages());
  const auto take_time = [&](Pass pass) {
    if (prices.attention() != nullptr) prices.price_pack({}, pass, 0.0, seconds);
    if (prices.attention() == nullptr) prices.price_pack({}, pass, seconds);
    return std::all_of(seconds.begin(), seconds.end(), [](double s) { return s > 0.0; });
  };
  return take_time(Pass::forward) && take_time(Pass::backward);
}

/// Deals packs to replicas. If empty packs take time, all replicas get the same number, with empty ones where needed; otherwise
/// none is added, because a plan has no tasks that take no time.
[[nodiscard]] inline std::vector<Packs> deal_to_replicas(const Packs& packs, std::size_t replicas,
                                                         ReplicaDealing dealing, const Prices& prices) {
  std::vector<std::uint32_t> replica(packs.size());
  if (dealing == ReplicaDealing::balanced && replicas > 1) {
    std::vector<double> work(packs.size(), 0.0);
    for (std::size_t k = 0; k < packs.size(); ++k) {
      for (const Slice& slice : packs[k]) work[k] += document_seconds(prices, slice.size());
    }
    replica = assign_equal_counts(work, replicas);
  } else {
    for (std::size_t k = 0; k < packs.size(); ++k) replica[k] = static_cast<std::uint32_t>(k % replicas);
  }
  std::vector<Packs> dealt = packs_by_bin(packs, replica, replicas);
  if (!empty_packs_take_time(prices)) return dealt;
  const std::size_t count = std::max<std::size_t>(1, (packs.size() + replicas - 1) / replicas);
  for (Packs& own : dealt) {
    while (own.size() < count) own.close();
  }
  return dealt;
}

/// 1F1B with the least recomputation that fits, of one replica's micro-batches. @throws InvalidInput if nothing fits.
[[nodiscard]] inline Schedule schedule_replica(const Packs& own, const Memory& memory,
                                               const MicroBatchOptions& options, Scheduler& scheduler) {
  const ScheduleOptions fit{.fit = FitPolicy::recompute};
  Schedule out;
  out.pipelines = 1;
  out.forward = out.backward = in_rows(own);
  scheduler.price(out, options.sharding);
  scheduler.schedule_priced(out, fit);
  Tokens most = 0;
  for (std::size_t k = 0; k < own.size(); ++k) most = std::max(most, count_tokens(own[k]));
  require(out.fits(), "micro-batches of up to ", most, " tokens do not fit into ", memory.capacity_text(),
          " with all layers recomputed; expected ",
          "a shorter context, more context parallelism, more stages or more memory");
  if (options.order == MicroBatchOrder::fastest) shorten_by_order(out, fit, scheduler);
  return out;
}

/// `MicroBatchPlanner::plan`.
[[nodiscard]] inline Plan plan_micro_batches(std::string_view planner, std::span<const Tokens> lengths,
                                             const Packs& micro_batches, const Job& job, PricedModels& models,
                                             const MicroBatchOptions& options) {
  const Prices& prices = models.prices.alone();
  const auto pipelines = static_cast<std::size_t>(job.layout.dp);
  const std::vector<Packs> replicas =
      deal_to_replicas(shardable_packs(micro_batches, job.layout.cp), pipelines, options.dealing, prices);
  std::vector<std::uint8_t> trained(lengths.size(), 0);
  std::vector<Tokens> trained_lengths;
  for (const Slice& slice : micro_batches.slices()) {
    trained[slice.sample] = 1;
    trained_lengths.push_back(slice.size());
  }
  require_durations(prices, trained_lengths);

  Scheduler scheduler(lengths, models.prices, models.memory);
  std::vector<PlacedSchedule> placed;
  for (const Packs& own : replicas) {
    Schedule schedule = schedule_replica(own, models.memory, options, scheduler);
    placed.push_back(placed_from(placed.size(), scheduler.with_peaks(std::move(schedule))));
  }
  Plan plan = assemble_plan(planner, lengths, job.model, job.device, layout_strategy(job), std::move(placed),
                            prices.sync_seconds());
  for (SampleId id = 0; id < lengths.size(); ++id) {
    if (trained[id] == 0) plan.deferred.push_back(id);
  }
  const StepLowerBound bound = step_lower_bound(trained_lengths, pipelines, models.prices);
  state_lower_bound(bound.seconds(), bound.exists, plan);
  plan.notes.insert(plan.notes.end(), models.missing.begin(), models.missing.end());
  return plan;
}

}  // namespace slimpack::detail
