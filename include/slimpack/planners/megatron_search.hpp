#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
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

/// The best of the settings that the options leave open. @pre the longest sample has `longest` tokens.
/// @throws InvalidInput if the length of packs is impossible, or no setting fits into memory.
[[nodiscard]] inline WholeSamplePlan best_megatron(std::span<const Tokens> lengths, Tokens longest,
                                                   Tokens context, std::size_t pipelines,
                                                   const GroupPrices& prices, const Memory& memory,
                                                   Scheduler& scheduler, const MegatronOptions& options) {
  const std::vector<std::size_t> group_sizes =
      options.choose_cp ? context_parallel_group_sizes(pipelines, prices) : std::vector<std::size_t>{1};
  const ScheduleOptions fit{
      .fit = FitPolicy::recompute, .each_pack = options.recompute_each_pack, .offload = options.offload};
  const Tokens asked = options.pack_tokens;
  require(asked == 0 || (asked >= longest && asked <= context), "pack_tokens is ", asked,
          "; expected the longest sample's ", longest, " to the context of ", context);
  WholeSamplePlan best = asked == 0
                             ? best_whole_samples(lengths, context, pipelines, group_sizes, scheduler, fit)
                             : plan_whole_samples(lengths, useful_pack_lengths(lengths, asked).back(),
                                                  pipelines, group_sizes, scheduler, fit);
  const std::string which =
      options.choose_cp ? concat("any context parallelism up to dp = ", pipelines) : "the layout's cp";
  require(best.pipelines_per_pack > 0, "packs of ", std::max(longest, asked), " tokens do not fit into ",
          memory.capacity_text(), " with ", which,
          " and all layers recomputed; expected shorter samples, more stages or more memory");
  return best;
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
      best_megatron(lengths, *longest, context, pipelines, prices, memory, scheduler, options);
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
