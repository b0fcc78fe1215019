#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/plan/assemble.hpp"
#include "slimpack/planners/megatron_options.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "slimpack/schedule/lower_bound.hpp"

namespace slimpack::detail {

/// Turns a schedule whose pipelines run all packs together into that of one pipeline with all their context-parallel ranks.
inline Schedule as_one_pipeline(Schedule schedule) {
  schedule.pipelines = 1;
  for (PackRows* const rows : {&schedule.forward, &schedule.backward})
    *rows = in_rows(std::move(rows->packs));
  return schedule;
}

/// `plan_megatron` with prices and memory of any models.
[[nodiscard]] inline Plan search_megatron(std::span<const Tokens> lengths, const Job& job,
                                          GroupPrices& prices, const Memory& memory,
                                          const MegatronOptions& options) {
  validate_batch(lengths, job.layout.dp);
  const auto longest = std::max_element(lengths.begin(), lengths.end());
  const Tokens context = options.context > 0 ? options.context : *longest;
  require(*longest <= context, "sample ", longest - lengths.begin(), " has ", *longest,
          " tokens; expected at most the context of ", context);
  Scheduler scheduler(lengths, prices, memory);
  const auto pipelines = static_cast<std::size_t>(job.layout.dp);
  WholeSamplePlan best =
      best_whole_samples(lengths, context, pipelines, context_parallel_group_sizes(pipelines, prices),
                         scheduler, {.fit = FitPolicy::recompute});
  require(best.pipelines_per_pack > 0, "packs of ", *longest, " tokens do not fit into ",
          memory.capacity_text(), " with any context parallelism up to dp = ", job.layout.dp,
          " and all layers recomputed; expected shorter samples, more stages or more memory");
  Job used = job;
  used.layout.dp /= static_cast<std::int32_t>(best.pipelines_per_pack);
  used.layout.cp *= static_cast<std::int32_t>(best.pipelines_per_pack);
  std::vector<PlacedSchedule> placed;
  for (Schedule& schedule : best.schedules) {
    auto peaks = scheduler.peak_bytes(schedule);
    peaks.resize(1);
    placed.push_back({.pipelines = {static_cast<PipelineId>(placed.size())},
                      .schedule = as_one_pipeline(std::move(schedule)),
                      .peak_bytes = std::move(peaks)});
  }
  Plan plan = assemble_plan("megatron", lengths, job.model, job.device, layout_strategy(used),
                            std::move(placed), prices.alone().sync_seconds());
  GroupPrices own(prices.shared_by(best.pipelines_per_pack));
  const StepLowerBound bound = step_lower_bound(lengths, static_cast<std::size_t>(used.layout.dp), own);
  state_lower_bound(bound.seconds(), bound.exists, plan);
  return plan;
}

}  // namespace slimpack::detail
