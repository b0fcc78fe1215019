#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "slimpack/core/batch.hpp"
#include "slimpack/plan/notes.hpp"
#include "slimpack/planners/assemble_on_layout.hpp"
#include "slimpack/planners/best_of.hpp"
#include "slimpack/planners/distribution_candidates.hpp"
#include "slimpack/planners/slimpack_options.hpp"
#include "slimpack/planners/whole_sample_candidates.hpp"

namespace slimpack::detail {

/// The shortest step that one search finds.
[[nodiscard]] inline StrategySchedules search_schedules(std::span<const Tokens> lengths,
                                                        std::size_t pipelines, GroupPrices& prices,
                                                        const Memory& memory,
                                                        const SlimPackOptions& options) {
  DistributionCandidates distributions(lengths, pipelines, prices, memory, options);
  Scheduler& scheduler = distributions.scheduler();
  DistributionPlan best = distributions();
  const auto distributed = [&](double most) {
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
    if (!wants_whole_samples(options)) return StrategySchedules{};
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
