#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/planners/assemble_on_layout.hpp"
#include "slimpack/planners/rank_row_search.hpp"
#include "slimpack/planners/row_plans.hpp"
#include "slimpack/planners/slimpack_options.hpp"
#include "slimpack/planners/whole_sample_plan.hpp"
#include "slimpack/planners/whole_samples.hpp"

// What SlimPack's search tries without cutting samples.
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

/// Whether the options leave the number of packs to the planner.
[[nodiscard]] inline bool any_packs(const SlimPackOptions& options) {
  return options.packs == 0 && !options.equal_packs;
}

[[nodiscard]] inline bool wants_whole_samples(const SlimPackOptions& options) {
  return options.search.whole_samples && any_packs(options);
}

/// Whether the options ask for rows in which each sample has a group of its own: of a power of two or all pipelines.
[[nodiscard]] inline bool wants_rows(const SlimPackOptions& options, std::size_t pipelines) {
  const bool sizes = options.group_sizes == GroupSizes::any || std::has_single_bit(pipelines);
  return options.search.thorough && options.search.rank_rows && options.merge && any_packs(options) && sizes;
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

}  // namespace slimpack::detail
