#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/partition/hybrid_rank_packs.hpp"
#include "slimpack/partition/packed_rank_rows.hpp"
#include "slimpack/planners/bytescale_options.hpp"
#include "slimpack/planners/row_plans.hpp"
#include "slimpack/planners/whole_sample_plan.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "slimpack/schedule/scheduler.hpp"
#include "slimpack/slicing/rank_packs.hpp"

namespace slimpack::detail {

/// How packs are made.
enum class HybridKind : std::uint8_t {
  ranks,  ///< `hybrid_rank_packs`, all ranks with equal work
  packs,  ///< the same, all packs with equal work
  rows,   ///< `packed_rank_rows` with powers of two: all packs that run at the same time with equal work
  squared_rows,  ///< the same, work being squared tokens
};

/// A kind's name in notes.
[[nodiscard]] constexpr const char* hybrid_name(HybridKind kind) {
  if (kind == HybridKind::ranks) return "DP balance";
  if (kind == HybridKind::packs) return "PP balance";
  return kind == HybridKind::rows ? "PP balance, row by row" : "PP balance, row by row, of squared tokens";
}

/// A schedule of all pipelines, and how its packs were made.
struct ByteScalePlan {
  Schedule schedule = {};
  HybridKind kind = HybridKind::ranks;
  HybridLimits limits = {};
  double seconds = std::numeric_limits<double>::infinity();
};

/// Looks for the balance and the limits with the shortest step.
class ByteScaleSearch {
 public:
  /// All have to outlive this.
  ByteScaleSearch(std::span<const Tokens> lengths, std::size_t ranks, GroupPrices& prices,
                  const Memory& memory, const ByteScaleOptions& options)
      : lengths_(lengths),
        ranks_(ranks),
        prices_(prices),
        options_(options),
        scheduler_(lengths, prices, memory) {}

  /// The best plan that takes less than `most` seconds; its seconds are infinite if there is none.
  [[nodiscard]] ByteScalePlan operator()(double most) {
    best_.seconds = most;
    std::size_t useless = 0;
    for (std::size_t least = 1; least <= ranks_ && useless < most_useless; ++least) {
      if (ranks_ % least != 0 || !prices_.allows(least)) continue;
      const double before = best_.seconds;
      search_groups_from(least);
      useless = best_.seconds < before ? 0 : useless + 1;
    }
    if (!found_) best_.seconds = infinite;
    return std::move(best_);
  }

  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();
  /// Smallest groups in a row that may be of no use before larger ones are not tried.
  static constexpr std::size_t most_useless = 3;
  /// Packs of a rank that limits of work are tried for.
  static constexpr std::array<double, 4> parts_of_work{1.0, 4.0, 16.0, 64.0};

  /// Tries limits with groups of at least so many ranks, then some around the best.
  void search_groups_from(std::size_t least) {
    std::vector<std::size_t> sizes =
        hybrid_group_sizes(ranks_, [&](std::size_t size) { return size >= least && prices_.allows(size); });
    if (sizes.empty() || sizes.front() != least) return;
    const auto seconds = [&](Tokens length, std::size_t size) {
      return document_seconds(prices_.shared_by(size), length);
    };
    domain_.emplace(lengths_, ranks_, std::move(sizes), seconds);
    std::vector<std::size_t> powers =
        rank_group_sizes(ranks_, [&](std::size_t size) { return size >= least && prices_.allows(size); });
    squared_rows_.emplace(lengths_, ranks_, powers, squared_tokens);
    rows_.emplace(lengths_, ranks_, std::move(powers), seconds);
    double share = 0.0;  // work of a rank, if all is shared equally
    for (SampleId id = 0; id < domain_->samples(); ++id)
      share += domain_->work(id, 0) * static_cast<double>(least) / static_cast<double>(ranks_);
    const std::vector<Tokens> tokens =
        options_.limit > 0
            ? std::vector<Tokens>{options_.limit}
            : limits_of_tokens(domain_->lengths(), domain_->ranks(), static_cast<double>(least_limit()));
    const double before = best_.seconds;
    for (const Tokens limit : tokens) {
      try_rows(limit);
      try_limits({limit, infinite});
    }
    for (const double parts : parts_of_work) {
      for (const Tokens limit : tokens) try_limits({limit, share / parts});
    }
    if (best_.seconds < before) refine();
  }

  /// Tries limits around those of the best plan, closer and closer.
  void refine() {
    for (const double step : {1.0, 0.5, 0.25}) {
      const HybridLimits middle = best_.limits;
      for (const double direction : {1.0, -1.0}) {
        const double factor = std::exp2(direction * step);
        try_limits({middle.tokens, middle.work * factor});
        if (options_.limit > 0) continue;
        const auto other = static_cast<Tokens>(static_cast<double>(middle.tokens) * factor);
        if (other < least_limit()) continue;
        try_rows(other);
        try_limits({other, middle.work});
        try_limits({other, middle.work * factor});
      }
    }
  }

  /// Fewest tokens of a rank with which the largest group holds the longest sample.
  [[nodiscard]] Tokens least_limit() const {
    const auto largest = static_cast<Tokens>(domain_->size(domain_->sizes() - 1));
    const Tokens longest = *std::max_element(lengths_.begin(), lengths_.end());
    return (longest + largest - 1) / largest;
  }

  void try_limits(const HybridLimits& limits) {
    try_one(limits, HybridKind::ranks);
    try_one(limits, HybridKind::packs);
  }

  void try_rows(Tokens limit) {
    try_one({limit, infinite}, HybridKind::rows);
    try_one({limit, infinite}, HybridKind::squared_rows);
  }

  [[nodiscard]] std::vector<RankRow> rows(const HybridLimits& limits, HybridKind kind) const {
    if (kind == HybridKind::rows) return packed_rank_rows(*rows_, limits.tokens);
    if (kind == HybridKind::squared_rows) return packed_rank_rows(*squared_rows_, limits.tokens);
    const bool ranks = kind == HybridKind::ranks;
    return hybrid_rank_packs(*domain_, limits, ranks ? HybridBalance::ranks : HybridBalance::packs);
  }

  /// Plans packs, unless they are those that were made before. What is better than the best replaces it.
  void try_one(const HybridLimits& limits, HybridKind kind) {
    std::vector<RankRow> made = rows(limits, kind);
    std::vector<RankRow>& last = last_[static_cast<std::size_t>(kind)];
    if (made == last) return;
    last = std::move(made);
    ByteScalePlan plan{.schedule = {}, .kind = kind, .limits = limits};
    plan.schedule.pipelines = ranks_;
    plan.schedule.forward = plan.schedule.backward = rank_packs(lengths_, last, ranks_, false).packs;
    scheduler_(plan.schedule, {.offload = options_.offload}, best_.seconds);
    plan.seconds = plan.schedule.seconds;
    if (plan.seconds >= best_.seconds) return;
    best_ = std::move(plan);
    found_ = true;
  }

  std::span<const Tokens> lengths_;
  std::size_t ranks_;
  GroupPrices& prices_;
  ByteScaleOptions options_;
  Scheduler scheduler_;
  std::optional<RankDomain> domain_;               // groups of any size
  std::optional<RankDomain> rows_, squared_rows_;  // powers of two; work by prices, and by squared tokens
  std::array<std::vector<RankRow>, 4> last_;       // [kind]
  ByteScalePlan best_;
  bool found_ = false;
};

/// `plan_bytescale` with prices and memory of any models.
[[nodiscard]] inline Plan search_bytescale(std::span<const Tokens> lengths, const Job& job,
                                           GroupPrices& prices, const Memory& memory,
                                           const ByteScaleOptions& options) {
  validate_batch(lengths);
  require(options.limit >= 0, "limit is ", options.limit, "; expected 0 or a positive number of tokens");
  const Tokens context = pack_context(lengths, options.context);
  const auto ranks = static_cast<std::size_t>(job.layout.dp);
  ByteScaleSearch search(lengths, ranks, prices, memory, options);
  // What one size of all groups gives, a static mesh, is also a plan of hybrid data parallelism.
  WholeSamplePlan mesh;
  if (options.limit == 0) {
    const ScheduleOptions fit{.fit = FitPolicy::recompute, .offload = options.offload};
    mesh = best_whole_samples(lengths, context, ranks, context_parallel_group_sizes(ranks, prices),
                              search.scheduler(), fit);
  }
  ByteScalePlan best = search(mesh.seconds);
  const bool hybrid = best.schedule.fits();
  require(hybrid || mesh.pipelines_per_pack > 0, "no packs that were tried fit into ", memory.capacity_text(),
          " with groups of up to dp = ", job.layout.dp,
          " pipelines and all layers recomputed; expected shorter samples, more stages or more memory",
          options.limit > 0 ? ", or the limit of tokens left to the planner" : "");
  if (!hybrid) {
    StrategySchedules groups = placed_groups(std::move(mesh), search.scheduler());
    Plan plan = assemble_on_layout("bytescale", lengths, job, std::move(groups.placed), prices);
    plan.notes.emplace_back("groups of one size were the best");
    return plan;
  }
  Plan plan = assemble_rows("bytescale", lengths, job, RowPlan{std::move(best.schedule), 0.0, best.seconds},
                            prices, search.scheduler());
  plan.notes.push_back(concat(hybrid_name(best.kind), ", with at most ", best.limits.tokens,
                              " tokens of a pack on each rank"));
  return plan;
}

}  // namespace slimpack::detail
