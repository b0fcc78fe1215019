#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/partition/karmarkar_karp.hpp"
#include "slimpack/partition/micro_batch_splits.hpp"
#include "slimpack/planners/best_of.hpp"
#include "slimpack/planners/dynapipe_options.hpp"
#include "slimpack/planners/whole_sample_plan.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "slimpack/schedule/cluster_orders.hpp"
#include "slimpack/schedule/full_pack.hpp"

namespace slimpack::detail {

/// Tokens that micro-batches may have: as many as fill 1F1B pipelines of `size` neighbours with no layer recomputed, half of
/// them, or all; and any number. Ascending.
[[nodiscard]] inline std::vector<Tokens> micro_batch_limits(std::span<const Tokens> lengths,
                                                            const Memory& memory, std::size_t size) {
  const std::int32_t layers = most_recompute_layers(memory);
  const Tokens all = std::accumulate(lengths.begin(), lengths.end(), Tokens{0});
  std::vector<Tokens> limits{all};
  for (const std::int32_t recompute : {0, layers / 2, layers})
    limits.push_back(std::min(all, largest_full_pack(memory, recompute) * static_cast<Tokens>(size)));
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  return limits;
}

/// The fastest splits into micro-batches, in their given order: each runs on `size` neighbouring pipelines, and Karmarkar-Karp
/// deals them to these groups.
/// @param most plans to return.
[[nodiscard]] inline std::vector<WholeSamplePlan> fastest_splits(std::span<const Tokens> lengths,
                                                                 std::size_t size, std::size_t replicas,
                                                                 GroupPrices& prices, const Memory& memory,
                                                                 Scheduler& scheduler, std::size_t most) {
  // How much longer than the best a split may take before its orders are searched, to be a finalist.
  constexpr double promising = 1.25;
  const std::vector<Tokens> limits = micro_batch_limits(lengths, memory, size);
  std::vector<WholeSamplePlan> found;
  double least = std::numeric_limits<double>::infinity();
  for (const MicroBatchSplit& split : micro_batch_splits(lengths, prices.shared_by(size), limits, replicas)) {
    const auto dealt = karmarkar_karp(split.seconds, replicas);
    WholeSamplePlan plan = schedule_on_groups(packs_by_bin(split.packs, dealt.bin, replicas), size, scheduler,
                                              {}, promising * least);
    if (plan.pipelines_per_pack == 0) continue;
    least = std::min(least, plan.seconds);
    found.push_back(std::move(plan));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  if (found.size() > most) found.resize(most);
  return found;
}

/// `plan_dynapipe` with prices and memory of any models.
[[nodiscard]] inline Plan search_dynapipe(std::span<const Tokens> lengths, const Job& job,
                                          GroupPrices& prices, const Memory& memory,
                                          const DynaPipeOptions& options) {
  validate_batch(lengths);
  require(options.clusters >= 1 && options.clusters <= 6, "clusters is ", options.clusters,
          "; expected 1 to 6");
  require(options.finalists >= 1, "finalists is 0; expected at least 1");
  const auto pipelines = static_cast<std::size_t>(job.layout.dp);
  const std::vector<std::size_t> sizes =
      options.choose_cp ? context_parallel_group_sizes(pipelines, prices) : std::vector<std::size_t>{1};
  Scheduler scheduler(lengths, prices, memory);
  WholeSamplePlan best;
  for (const std::size_t size : sizes) {
    for (WholeSamplePlan& plan :
         fastest_splits(lengths, size, pipelines / size, prices, memory, scheduler, options.finalists)) {
      plan.seconds =
          shorten_slowest_by_cluster_orders(plan.schedules, options.clusters, best.seconds, scheduler);
      improve(std::move(plan), best);
    }
  }
  require(best.pipelines_per_pack > 0, "no micro-batches that were tried fit into ", memory.capacity_text(),
          options.choose_cp ? concat(" with any context parallelism up to dp = ", job.layout.dp)
                            : std::string(" with the layout's cp"),
          " and all layers recomputed; expected shorter samples, more stages or more memory");
  Plan plan = assemble_whole_samples("dynapipe", lengths, job, std::move(best), prices, scheduler);
  plan.notes.push_back(
      concat(plan.forward.packs.size(), " micro-batches on ", plan.pipelines.size(), " replicas"));
  return plan;
}

}  // namespace slimpack::detail
