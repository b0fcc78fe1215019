#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "slimpack/core/batch.hpp"
#include "slimpack/planners/bytescale_options.hpp"
#include "slimpack/planners/hybrid_search.hpp"
#include "slimpack/planners/row_plans.hpp"
#include "slimpack/planners/whole_sample_plan.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "slimpack/schedule/scheduler.hpp"

namespace slimpack::detail {

/// `plan_bytescale` with prices and memory of any models.
[[nodiscard]] inline Plan search_bytescale(std::span<const Tokens> lengths, const Job& job,
                                           GroupPrices& prices, const Memory& memory,
                                           const ByteScaleOptions& options) {
  validate_batch(lengths);
  require(options.limit >= 0, "limit is ", options.limit, "; expected 0 or a positive number of tokens");
  const Tokens context = pack_context(lengths, options.context);
  const auto ranks = static_cast<std::size_t>(job.layout.dp);
  Scheduler scheduler(lengths, prices, memory);
  // What one size of all groups gives, a static mesh, is also a plan of hybrid data parallelism.
  WholeSamplePlan mesh;
  if (options.limit == 0) {
    const ScheduleOptions fit{.fit = FitPolicy::recompute, .offload = options.offload};
    mesh = best_whole_samples(lengths, context, ranks, context_parallel_group_sizes(ranks, prices), scheduler,
                              fit);
  }
  HybridPlan best = HybridSearch(lengths, ranks, prices, options, scheduler)(mesh.seconds);
  const bool hybrid = best.schedule.fits();
  require(hybrid || mesh.pipelines_per_pack > 0, "no packs that were tried fit into ", memory.capacity_text(),
          " with groups of up to dp = ", job.layout.dp,
          " pipelines and all layers recomputed; expected shorter samples, more stages or more memory",
          options.limit > 0 ? ", or the limit of tokens left to the planner" : "");
  if (!hybrid) {
    StrategySchedules groups = placed_groups(std::move(mesh), scheduler);
    Plan plan = assemble_on_layout("bytescale", lengths, job, std::move(groups.placed), prices);
    plan.notes.emplace_back("groups of one size were the best");
    return plan;
  }
  Plan plan = assemble_rows("bytescale", lengths, job, RowPlan{std::move(best.schedule), 0.0, best.seconds},
                            prices, scheduler);
  plan.notes.push_back(concat(hybrid_kind_name(best.kind), ", with at most ", best.limits.tokens,
                              " tokens of a pack on each rank"));
  return plan;
}

}  // namespace slimpack::detail
