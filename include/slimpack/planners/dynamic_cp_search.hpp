#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "slimpack/core/batch.hpp"
#include "slimpack/planners/dynamic_cp_options.hpp"
#include "slimpack/planners/rank_row_search.hpp"

namespace slimpack::detail {

/// Notes who made the plan's rows, and what is slimpack's own in them.
inline void note_rows(const RankRowSearch::Way& way, bool one_stage, Plan& plan) {
  plan.notes.push_back(concat("rows by ", rank_scheduler_name(way.scheduler), ", deciding by ",
                              way.by_prices ? "prices" : "squared tokens", ", with at most ", way.limit,
                              " tokens of a micro-batch on each rank"));
  if (way.scheduler == RankScheduler::balanced && !one_stage)
    plan.notes.emplace_back(
        "Megatron Core's balanced scheduler has no pipeline stages: that its rows run in 1F1B order, and "
        "without barriers, is slimpack's own");
}

/// `plan_dynamic_cp` with prices and memory of any models.
[[nodiscard]] inline Plan search_dynamic_cp(std::span<const Tokens> lengths, const Job& job,
                                            GroupPrices& prices, const Memory& memory,
                                            const DynamicCpOptions& options) {
  validate_batch(lengths, job.layout.dp);
  require(options.limit >= 0, "limit is ", options.limit, "; expected 0 or a positive number of tokens");
  const auto ranks = static_cast<std::size_t>(job.layout.dp);
  const bool one_stage = memory.stages() == 1;
  RankRowSearch search(lengths, ranks, prices, memory, options.limit, one_stage);
  search(megatron_core_schedulers);
  if (options.nested) search(nested_scheduler);  // last, so that they can't make it longer
  RowPlan best = search.take();
  require(best.schedule.fits(), "no rows of micro-batches that were tried fit into ", memory.capacity_text(),
          " with groups of up to dp = ", job.layout.dp,
          " pipelines and all layers recomputed; expected shorter samples, more stages or more memory",
          options.limit > 0 ? ", or the limit of tokens left to the planner" : "");
  Plan plan = assemble_rows("dynamic-cp", lengths, job, std::move(best), prices, search.scheduler());
  note_rows(search.way(), one_stage, plan);
  return plan;
}

}  // namespace slimpack::detail
