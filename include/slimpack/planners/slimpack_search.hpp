#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/plan/notes.hpp"
#include "slimpack/planners/assemble_on_layout.hpp"
#include "slimpack/planners/best_of.hpp"
#include "slimpack/planners/distribution_candidates.hpp"
#include "slimpack/planners/rank_row_search.hpp"
#include "slimpack/planners/row_plans.hpp"
#include "slimpack/planners/slimpack_options.hpp"
#include "slimpack/planners/whole_sample_plan.hpp"
#include "slimpack/planners/whole_samples.hpp"

namespace slimpack::detail {

/// The best packs of whole samples that the options allow, of all that `plan_megatron` tries.
/// @param most gives up plans that take this long or longer.
[[nodiscard]] inline WholeSamplePlan allowed_whole_samples(std::span<const Tokens> lengths,
                                                           std::size_t pipelines, const GroupPrices& prices,
                                                           Scheduler& scheduler,
                                                           const SlimPackOptions& options, double most) {
  std::vector<std::size_t> group_sizes = context_parallel_group_sizes(pipelines, prices);
  std::erase_if(group_sizes, [&](std::size_t size) {
    return (!options.merge && size > 1) || !contains(options.group_sizes, size);
  });
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  return best_whole_samples(lengths, std::max(longest, options.context), pipelines, group_sizes, scheduler,
                            {.each_pack = options.recompute_each_pack, .offload = options.offload}, most);
}

/// Whether the options ask for rows in which each sample has a group of its own: of a power of two or all pipelines.
[[nodiscard]] inline bool wants_rows(const SlimPackOptions& options, std::size_t pipelines) {
  const bool sizes = options.group_sizes == GroupSizes::any || std::has_single_bit(pipelines);
  const bool any_packs = options.packs == 0 && !options.equal_packs;
  return options.search.thorough && options.search.rank_rows && options.merge && any_packs && sizes;
}

/// The best rows of whole samples. No pipeline waits at a barrier. Of many samples, only nested groups, and of these only what
/// takes less than `promising` seconds.
[[nodiscard]] inline StrategySchedules rank_row_schedules(std::span<const Tokens> lengths,
                                                          std::size_t pipelines, GroupPrices& prices,
                                                          const Memory& memory, const SlimPackSearch& wanted,
                                                          double promising) {
  RankRowSearch search(lengths, pipelines, prices, memory, 0, false);
  const bool few = lengths.size() <= wanted.most_row_samples;
  RowPlan rows = search.promising(few, few ? std::numeric_limits<double>::infinity() : promising);
  StrategySchedules out{.placed = {}, .seconds = rows.seconds};
  if (rows.schedule.fits())
    out.placed.push_back(placed_from(0, search.scheduler().with_peaks(std::move(rows.schedule))));
  return out;
}

/// The shortest step that one search finds.
[[nodiscard]] inline StrategySchedules search_schedules(std::span<const Tokens> lengths,
                                                        std::size_t pipelines, GroupPrices& prices,
                                                        const Memory& memory,
                                                        const SlimPackOptions& options) {
  DistributionCandidates distributions(lengths, pipelines, prices, memory, options);
  Scheduler& scheduler = distributions.scheduler();
  const bool any_packs = options.packs == 0 && !options.equal_packs;
  const auto distributed = [&](double most) {
    DistributionPlan best = distributions();
    StrategySchedules out;
    if (best.seconds >= most) return out;
    out.seconds = best.seconds;
    for (std::size_t g = 0; g < best.groups.size(); ++g)
      out.placed.push_back(
          placed_from(best.groups[g].first, scheduler.with_peaks(std::move(best.plans[g].schedule))));
    return out;
  };
  // What rows are given up by does not depend on the plan's tile or boundaries: a finer tile gives up no more of them.
  const auto rows = [&](double) {
    if (!wants_rows(options, pipelines)) return StrategySchedules{};
    return rank_row_schedules(lengths, pipelines, prices, memory, options.search,
                              options.search.hopeless * distributions.decided_seconds());
  };
  const auto whole_samples = [&](double most) {
    StrategySchedules out;
    if (!options.search.whole_samples || !any_packs) return out;
    return placed_groups(allowed_whole_samples(lengths, pipelines, prices, scheduler, options, most),
                         scheduler);
  };
  return best_of<StrategySchedules>(distributed, rows, whole_samples);
}

/// The best schedules that the options allow. A search whose layers may wait in the host's memory cuts other packs than
/// one whose may not, and can end at a longer step, so both are tried.
[[nodiscard]] inline StrategySchedules best_schedules(std::span<const Tokens> lengths, std::size_t pipelines,
                                                      GroupPrices& prices, const Memory& memory,
                                                      const SlimPackOptions& options) {
  validate(options);
  const auto as_asked = [&](double) { return search_schedules(lengths, pipelines, prices, memory, options); };
  const auto without_offload = [&](double) {
    if (!options.offload) return StrategySchedules{};
    SlimPackOptions kept = options;
    kept.offload = false;
    return search_schedules(lengths, pipelines, prices, memory, kept);
  };
  return best_of<StrategySchedules>(as_asked, without_offload);
}

/// Notes why replicas or packs are unequal if they are: step time comes first.
inline void note_imbalance(const SlimPackOptions& options, Plan& plan) {
  const PlanMetrics metrics = plan_metrics(plan);
  if (metrics.busiest_stage_imbalance > 1.005) {
    plan.notes.push_back(options.merge
                             ? "replicas hold unequal work: of the distributions tried, the one with the "
                               "shortest step does not divide it equally"
                             : "replicas hold unequal work: without merging, a sample stays on one of them");
  } else if (metrics.replica_imbalance > 1.005) {
    plan.notes.push_back(
        "replicas hold equal work on their busiest stages, which set the pace; their totals over all stages "
        "differ");
  }
  if (std::max(metrics.max_over_mean_forward, metrics.max_over_mean_backward) > 1.02) {
    plan.notes.push_back(concat("packs are unequal by more than 2 %: ",
                                options.packs > 0 ? "their number was given"
                                : !options.asymmetric
                                    ? "backward packs have the boundaries of forward packs"
                                    : "of the candidates tried, the one with the shortest step has "
                                      "unequal packs",
                                coarseness(metrics, options.tile)));
  }
}

/// `plan_slimpack` with prices and memory of any models.
[[nodiscard]] inline Plan search_slimpack(std::span<const Tokens> lengths, const Job& job,
                                          GroupPrices& prices, const Memory& memory,
                                          const SlimPackOptions& options) {
  validate_batch(lengths, job.layout.dp);
  const auto longest = std::max_element(lengths.begin(), lengths.end());
  require(options.context == 0 || options.context >= *longest, "context is ", options.context,
          "; expected 0, or at least the ", *longest, " tokens of sample ", longest - lengths.begin());
  const auto pipelines = static_cast<std::size_t>(job.layout.dp);
  StrategySchedules best = best_schedules(lengths, pipelines, prices, memory, options);
  if (best.placed.empty() && !options.search.thorough) {
    SlimPackOptions thorough = options;
    thorough.search.thorough = true;
    best = best_schedules(lengths, pipelines, prices, memory, thorough);
  }
  require(!best.placed.empty(), "no plan that was tried fits into the memory of ", memory.capacity_text(),
          " with all layers recomputed",
          options.packs > 0 ? ", or merged and local samples need more than the packs asked for" : "",
          "; expected shorter samples, more stages or more memory",
          options.packs > 0 || options.equal_packs ? ", or the number of packs left to the planner" : "");
  Plan plan = assemble_on_layout("slimpack", lengths, job, std::move(best.placed), prices);
  if (options.packs > 0) note_fewer_packs(options.packs, options.tile, plan);
  note_imbalance(options, plan);
  return plan;
}

}  // namespace slimpack::detail
