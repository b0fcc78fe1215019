#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/partition/uniform_rank_rows.hpp"
#include "slimpack/planners/best_of.hpp"
#include "slimpack/planners/row_plans.hpp"
#include "slimpack/planners/whole_samples.hpp"

namespace slimpack::detail {

/// The best plan of packs on groups of one size (`uniform_rank_rows`), of all useful lengths of packs up to the context
/// (`useful_pack_lengths`).
[[nodiscard]] inline RowPlan best_uniform_rows(std::span<const Tokens> lengths, Tokens context,
                                               std::size_t ranks, std::size_t size, Scheduler& scheduler,
                                               double most) {
  RowPlan best;
  best.seconds = most;
  for (const Tokens length : useful_pack_lengths(lengths, context)) {
    const std::vector<RankRow> rows = uniform_rank_rows(lengths, length, ranks, size);
    improve(schedule_with_barriers(lengths, rows, ranks, scheduler, best.seconds), best);
  }
  if (best.schedule.pipelines == 0 || !best.schedule.fits()) best = {};
  return best;
}

/// The same with the best of a domain's sizes that divide its ranks.
[[nodiscard]] inline RowPlan best_uniform_rows(const RankDomain& domain, Tokens context,
                                               Scheduler& scheduler) {
  RowPlan best;
  for (std::size_t place = 0; place < domain.sizes(); ++place) {
    const std::size_t size = domain.size(place);
    if (domain.ranks() % size == 0)
      improve(best_uniform_rows(domain.lengths(), context, domain.ranks(), size, scheduler, best.seconds),
              best);
  }
  return best;
}

}  // namespace slimpack::detail
