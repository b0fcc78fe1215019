#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/hybrid_rank_rows.hpp"
#include "slimpack/planners/best_of.hpp"
#include "slimpack/planners/bytescale_options.hpp"
#include "slimpack/planners/rank_limits.hpp"
#include "slimpack/schedule/scheduler.hpp"
#include "slimpack/slicing/rank_packs.hpp"

namespace slimpack::detail {

/// A schedule of all pipelines, and how its packs were made.
struct HybridPlan {
  Schedule schedule = {};
  HybridKind kind = HybridKind::ranks;
  HybridLimits limits = {};
  double seconds = std::numeric_limits<double>::infinity();
};

/// Looks for the packs of hybrid data parallelism with the shortest step: the smallest groups, the kind of balance, and the limits
/// of tokens and of work.
class HybridSearch {
 public:
  /// All have to outlive this.
  HybridSearch(std::span<const Tokens> lengths, std::size_t ranks, GroupPrices& prices,
               const ByteScaleOptions& options, Scheduler& scheduler)
      : lengths_(lengths), ranks_(ranks), prices_(prices), options_(options), scheduler_(scheduler) {}

  /// The best plan that takes less than `most` seconds; its seconds are infinite if there is none.
  [[nodiscard]] HybridPlan operator()(double most) {
    best_.seconds = most;
    std::size_t useless = 0;
    for (std::size_t least = 1; least <= ranks_ && useless < most_useless; ++least) {
      if (ranks_ % least != 0 || !prices_.allows(least)) continue;
      const double before = best_.seconds;
      search_groups_from(least);
      useless = best_.seconds < before ? 0 : useless + 1;
    }
    if (!best_.schedule.fits()) best_.seconds = infinite;
    return std::move(best_);
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();
  /// Smallest groups in a row that may be of no use before larger ones are not tried.
  static constexpr std::size_t most_useless = 3;
  /// Packs of a rank that limits of work are tried for.
  static constexpr std::array<double, 4> parts_of_work{1.0, 4.0, 16.0, 64.0};

  /// Tries limits with groups of at least so many ranks, then some around the best.
  void search_groups_from(std::size_t least) {
    const auto allows = [&](std::size_t size) { return size >= least && prices_.allows(size); };
    std::vector<std::size_t> sizes = hybrid_group_sizes(ranks_, allows);
    if (sizes.empty() || sizes.front() != least) return;
    rows_.emplace(
        lengths_, ranks_, std::move(sizes), rank_group_sizes(ranks_, allows),
        [&](Tokens length, std::size_t size) { return document_seconds(prices_.shared_by(size), length); });
    const std::vector<Tokens> tokens = limits_of_tokens(rows_->domain(), options_.limit);
    const double before = best_.seconds;
    for (const Tokens limit : tokens) {
      try_rows(limit);
      try_packs({limit, infinite});
    }
    const double work = rows_->mean_work();
    for (const double parts : parts_of_work) {
      for (const Tokens limit : tokens) try_packs({limit, work / parts});
    }
    if (best_.seconds < before) refine();
  }

  /// Tries limits around those of the best plan, closer and closer.
  void refine() {
    for (const double step : {1.0, 0.5, 0.25}) {
      const HybridLimits middle = best_.limits;
      for (const double direction : {1.0, -1.0}) {
        const double factor = std::exp2(direction * step);
        try_packs({middle.tokens, middle.work * factor});
        if (options_.limit > 0) continue;
        const auto other = static_cast<Tokens>(static_cast<double>(middle.tokens) * factor);
        if (other < rows_->domain().least_limit()) continue;
        try_rows(other);
        try_packs({other, middle.work});
        try_packs({other, middle.work * factor});
      }
    }
  }

  void try_packs(const HybridLimits& limits) {
    try_one(HybridKind::ranks, limits);
    try_one(HybridKind::packs, limits);
  }

  void try_rows(Tokens limit) {
    try_one(HybridKind::rows, {limit, infinite});
    try_one(HybridKind::squared_rows, {limit, infinite});
  }

  /// Plans packs, unless they are those that were made before. What is better than the best replaces it.
  void try_one(HybridKind kind, const HybridLimits& limits) {
    std::vector<RankRow> made = (*rows_)(kind, limits);
    std::vector<RankRow>& last = last_[static_cast<std::size_t>(kind)];
    if (made == last) return;
    last = std::move(made);
    HybridPlan plan{.schedule = {}, .kind = kind, .limits = limits};
    plan.schedule.pipelines = ranks_;
    plan.schedule.forward = plan.schedule.backward = rank_packs(lengths_, last, ranks_, false).packs;
    scheduler_(plan.schedule, {.offload = options_.offload}, best_.seconds);
    plan.seconds = plan.schedule.seconds;
    improve(std::move(plan), best_);
  }

  std::span<const Tokens> lengths_;
  std::size_t ranks_;
  GroupPrices& prices_;
  ByteScaleOptions options_;
  Scheduler& scheduler_;
  std::optional<HybridRankRows> rows_;        // with the smallest groups that are tried
  std::array<std::vector<RankRow>, 4> last_;  // [kind]
  HybridPlan best_;
};

}  // namespace slimpack::detail
