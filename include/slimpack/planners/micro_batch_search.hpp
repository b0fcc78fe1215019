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
#include "slimpack/planners/micro_batch_options.hpp"
#include "slimpack/planners/whole_sample_plan.hpp"
#include "slimpack/planners/whole_samples.hpp"
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

/// 1F1B with the least recomputation that fits, of each replica's micro-batches. @throws InvalidInput if nothing fits.
[[nodiscard]] inline WholeSamplePlan schedule_replicas(std::vector<Packs> replicas, const Memory& memory,
                                                       const MicroBatchOptions& options,
                                                       Scheduler& scheduler) {
  const ScheduleOptions fit{.fit = FitPolicy::recompute, .sharding = options.sharding};
  Tokens most = 0;
  for (const Packs& own : replicas) {
    for (std::size_t k = 0; k < own.size(); ++k) most = std::max(most, count_tokens(own[k]));
  }
  WholeSamplePlan out = schedule_on_groups(std::move(replicas), 1, scheduler, fit);
  require(out.pipelines_per_pack > 0, "micro-batches of up to ", most, " tokens do not fit into ",
          memory.capacity_text(), " with all layers recomputed; expected ",
          "a shorter context, more context parallelism, more stages or more memory");
  if (options.order == MicroBatchOrder::fastest) {
    for (Schedule& each : out.schedules) shorten_by_order(each, fit, scheduler);
  }
  return out;
}

/// `MicroBatchPlanner::plan`.
[[nodiscard]] inline Plan plan_micro_batches(std::string_view planner, std::span<const Tokens> lengths,
                                             const Packs& micro_batches, const Job& job, PricedModels& models,
                                             const MicroBatchOptions& options) {
  const Prices& prices = models.prices.alone();
  std::vector<Packs> replicas =
      deal_to_replicas(shardable_packs(micro_batches, job.layout.cp), static_cast<std::size_t>(job.layout.dp),
                       options.dealing, prices);
  std::vector<Tokens> trained;
  for (const Slice& slice : micro_batches.slices()) trained.push_back(slice.size());
  require_durations(prices, trained);
  Scheduler scheduler(lengths, models.prices, models.memory);
  WholeSamplePlan best = schedule_replicas(std::move(replicas), models.memory, options, scheduler);
  Plan plan = assemble_whole_samples(planner, lengths, job, std::move(best), models.prices, scheduler);
  plan.notes.insert(plan.notes.end(), models.missing.begin(), models.missing.end());
  return plan;
}

}  // namespace slimpack::detail
