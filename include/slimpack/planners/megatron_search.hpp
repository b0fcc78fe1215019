#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/planners/megatron_options.hpp"
#include "slimpack/planners/whole_sample_plan.hpp"

namespace slimpack::detail {

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
  const Tokens context = pack_context(lengths, options.context);
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  Scheduler scheduler(lengths, prices, memory);
  const auto pipelines = static_cast<std::size_t>(job.layout.dp);
  WholeSamplePlan best =
      best_megatron(lengths, longest, context, pipelines, prices, memory, scheduler, options);
  return assemble_whole_samples("megatron", lengths, job, std::move(best), prices, scheduler);
}

}  // namespace slimpack::detail
