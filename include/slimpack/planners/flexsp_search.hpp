#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "slimpack/core/batch.hpp"
#include "slimpack/planners/flexible_row_search.hpp"
#include "slimpack/planners/ulysses.hpp"
#include "slimpack/planners/uniform_rows.hpp"

namespace slimpack::detail {

/// `plan_flexsp` with prices and memory of any models.
[[nodiscard]] inline Plan search_flexsp(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                                        const Memory& memory, const FlexSpOptions& options) {
  require_sequence_parallel("flexsp", job.layout);
  validate_batch(lengths);
  require(options.limit >= 0, "limit is ", options.limit, "; expected 0 or a positive number of tokens");
  const auto ranks = static_cast<std::size_t>(job.layout.dp);
  const RankDomain domain(
      lengths, ranks, rank_group_sizes(ranks, [&](std::size_t size) { return prices.allows(size); }),
      [&](Tokens length, std::size_t size) { return document_seconds(prices.shared_by(size), length); });
  Scheduler scheduler(lengths, prices, memory);
  // What one size of all groups gives, as DeepSpeed has it with any degree, is also a plan of groups of any sizes.
  RowPlan best;
  if (options.limit == 0) best = best_uniform_rows(domain, pack_context(lengths, options.context), scheduler);
  const double constant =
      prices.alone().pack_seconds(0, Pass::forward) + prices.alone().pack_seconds(0, Pass::backward);
  FlexibleRowSearch search(domain, constant, options, scheduler, std::move(best));
  best = search();
  require(best.schedule.fits(), "no micro-batches that were tried fit into ", memory.capacity_text(),
          " with sequence-parallel groups of up to dp = ", job.layout.dp,
          " pipelines and all layers recomputed; expected shorter samples, more devices or more memory",
          options.limit > 0 ? ", or the limit of tokens left to the planner" : "");
  Plan plan = assemble_rows("flexsp", lengths, job, std::move(best), prices, scheduler);
  plan.notes.push_back(search.limit() > 0 ? concat("groups of different sizes, with at most ", search.limit(),
                                                   " tokens of a micro-batch on each rank")
                                          : std::string("groups of one size were the best"));
  return plan;
}

}  // namespace slimpack::detail
