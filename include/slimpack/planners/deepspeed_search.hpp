#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>

#include "slimpack/core/batch.hpp"
#include "slimpack/planners/sequence_parallel_options.hpp"
#include "slimpack/planners/ulysses.hpp"
#include "slimpack/planners/uniform_rows.hpp"

namespace slimpack::detail {

/// `plan_deepspeed` with prices and memory of any models.
[[nodiscard]] inline Plan search_deepspeed(std::span<const Tokens> lengths, const Job& job,
                                           GroupPrices& prices, const Memory& memory,
                                           const DeepSpeedOptions& options) {
  require_sequence_parallel("deepspeed", job.layout);
  validate_batch(lengths);
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  const Tokens context = pack_context(lengths, options.context), asked = options.pack_tokens;
  require(asked == 0 || (asked >= longest && asked <= context), "pack_tokens is ", asked,
          "; expected the longest sample's ", longest, " to the context of ", context);
  const auto ranks = static_cast<std::size_t>(job.layout.dp);
  Scheduler scheduler(lengths, prices, memory);
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  RowPlan best = asked == 0 ? best_uniform_rows(lengths, context, ranks, 1, scheduler, unlimited)
                            : schedule_with_barriers(lengths, uniform_rank_rows(lengths, asked, ranks, 1),
                                                     ranks, scheduler, unlimited);
  require(best.schedule.fits(), "packs of ", std::max(longest, asked), " tokens do not fit into ",
          memory.capacity_text(), " with sequence parallelism of cp = ", job.layout.cp,
          " and all layers recomputed; expected shorter samples, a larger cp or more memory");
  return assemble_rows("deepspeed", lengths, job, std::move(best), prices, scheduler);
}

}  // namespace slimpack::detail
