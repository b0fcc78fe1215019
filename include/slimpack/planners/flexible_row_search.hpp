#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/flexible_micro_batches.hpp"
#include "slimpack/planners/rank_limits.hpp"
#include "slimpack/planners/sequence_parallel_options.hpp"
#include "slimpack/planners/uniform_rows.hpp"

namespace slimpack::detail {

/// Looks for the limit of tokens per rank and the number of micro-batches with the shortest step.
class FlexibleRowSearch {
 public:
  /// @param constant seconds of a row beyond those of its samples. @param best plan so far. All but it have to outlive this.
  FlexibleRowSearch(const RankDomain& domain, double constant, const FlexSpOptions& options,
                    Scheduler& scheduler, RowPlan best)
      : domain_(domain),
        constant_(constant),
        options_(options),
        micro_batches_(domain, constant, options.split_trials),
        scheduler_(scheduler),
        best_(std::move(best)) {}

  /// The best plan; its seconds are infinite if none fits.
  [[nodiscard]] RowPlan operator()() {
    std::vector<Tokens> limits = limits_of_tokens(domain_, options_.limit);
    std::reverse(limits.begin(), limits.end());
    for (const Tokens limit : limits) try_limit(limit);
    if (options_.limit == 0) try_limits_around(way_.limit, [&](Tokens limit) { try_limit(limit); });
    micro_batches_.start_again(options_.final_split_trials);
    if (way_.limit > 0) {
      micro_batches_.use_limit(way_.limit);
      try_micro_batches(way_);
    }
    return std::move(best_);
  }

  /// Tokens of a rank with which the best plan was made; 0: it is the one from before.
  [[nodiscard]] Tokens limit() const { return way_.limit; }

 private:
  /// How micro-batches are made.
  struct Way {
    Tokens limit = 0;  ///< tokens of each rank
    std::size_t count = 0;
    MicroBatchCut cut = MicroBatchCut::tokens;
  };

  /// Tries numbers of micro-batches from the fewest that hold all tokens, until some more in a row are no better.
  void try_limit(Tokens limit) {
    if (limit < domain_.least_limit()) return;
    micro_batches_.use_limit(limit);
    const double held = static_cast<double>(limit) * static_cast<double>(domain_.ranks());
    const std::span<const Tokens> lengths = domain_.lengths();
    const double tokens = std::accumulate(lengths.begin(), lengths.end(), 0.0);
    const auto least = static_cast<std::size_t>(std::ceil(tokens / held));
    std::size_t tried = 0;
    for (std::size_t count = std::max<std::size_t>(least, 1);
         count <= lengths.size() && tried < options_.micro_batch_trials; ++count) {
      const double before = best_.seconds;
      bool held_all = false;
      for (const MicroBatchCut cut :
           {MicroBatchCut::tokens, MicroBatchCut::tokens_last_full, MicroBatchCut::work})
        held_all = try_micro_batches({limit, count, cut}) || held_all;
      if (held_all) tried = best_.seconds < before ? 1 : tried + 1;
      if (static_cast<double>(count) * constant_ >= best_.seconds) break;
    }
  }

  /// Schedules micro-batches, unless they were before or take too long. @returns whether groups hold all samples so.
  bool try_micro_batches(const Way& way) {
    FlexibleMicroBatches::Made made = micro_batches_(way.count, way.cut, best_.seconds);
    if (made.rows.empty()) return made.held;
    if (made.ids == best_ids_) way_ = way;  // limits fall
    if (made.work >= best_.seconds || !scheduled_.insert(made.ids).second) return true;
    RowPlan plan =
        schedule_with_barriers(domain_.lengths(), made.rows, domain_.ranks(), scheduler_, best_.seconds);
    if (plan.seconds >= best_.seconds) return true;
    best_ = std::move(plan);
    best_ids_ = std::move(made.ids);
    way_ = way;
    return true;
  }

  const RankDomain& domain_;
  double constant_;
  FlexSpOptions options_;
  FlexibleMicroBatches micro_batches_;
  Scheduler& scheduler_;
  RowPlan best_;
  Way way_;                                       // to the best
  std::vector<std::size_t> best_ids_;             // of its rows
  std::set<std::vector<std::size_t>> scheduled_;  // ids of the rows that were
};

}  // namespace slimpack::detail
