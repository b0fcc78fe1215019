#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/rank_schedulers.hpp"
#include "slimpack/planners/rank_limits.hpp"
#include "slimpack/planners/row_plans.hpp"

namespace slimpack::detail {

/// Both schedulers that Megatron Core has, and the next version of one.
inline constexpr std::array megatron_core_schedulers{RankScheduler::packed, RankScheduler::balanced_packed,
                                                     RankScheduler::balanced};
/// SlimPack's own.
inline constexpr std::array nested_scheduler{RankScheduler::nested};

/// Looks for the scheduler and the limit of tokens per rank with the shortest step.
class RankRowSearch {
 public:
  /// How rows are made.
  struct Way {
    RankScheduler scheduler = RankScheduler::packed;
    Tokens limit = 0;        ///< tokens of a micro-batch on each rank; 0: there are no rows
    bool by_prices = false;  ///< what decides in the scheduler; otherwise squared tokens
  };

  /// @param prices, memory of a pipeline, which is a rank. All have to outlive this. @param limit the only one to try; 0: any.
  /// @param barriers whether ranks wait for each other after each row of samples that run one by one; only with one stage.
  RankRowSearch(std::span<const Tokens> lengths, std::size_t ranks, GroupPrices& prices, const Memory& memory,
                Tokens limit, bool barriers)
      : lengths_(lengths),
        ranks_(ranks),
        prices_(prices),
        limit_(limit),
        barriers_(barriers),
        sizes_(rank_group_sizes(ranks, [&](std::size_t size) { return prices.allows(size); })),
        scheduler_(lengths, prices, memory) {}

  /// Tries schedulers with all limits. The best plan so far is replaced by what is better alone.
  void operator()(std::span<const RankScheduler> schedulers) {
    use_groups_from(0);
    for (const Tokens limit : limits_of_tokens(rows_->domain(), limit_)) try_limit(schedulers, limit);
    improve_best(schedulers);
  }

  /// The best plan of nested groups, and of Megatron Core's schedulers if `all`, if any takes less than `most` seconds; otherwise its
  /// seconds are infinite. Leaves out limits that promise no better one.
  [[nodiscard]] RowPlan promising(bool all, double most) {
    best_.seconds = most;
    if (all) improve_with(megatron_core_schedulers);
    improve_with(nested_scheduler);
    return way_.limit > 0 ? take() : RowPlan{};
  }

  /// The best plan; its seconds are infinite if none fits.
  [[nodiscard]] RowPlan take() { return std::move(best_); }
  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
  /// How the best plan's rows are made.
  [[nodiscard]] const Way& way() const { return way_; }

 private:
  /// Tries schedulers with limits that promise a better plan; if there is one, other limits around its own.
  void improve_with(std::span<const RankScheduler> schedulers) {
    const double before = best_.seconds;
    use_groups_from(0);
    for (const Tokens limit : limits_of_tokens(rows_->domain(), limit_)) {
      if (promised_seconds(rows_->domain(), limit, prices_.alone().stages()) < best_.seconds)
        try_limit(schedulers, limit);
    }
    if (best_.seconds < before) improve_best(schedulers);
  }

  /// Tries limits around the best, then that one without groups of the smallest sizes as long as that helps.
  void improve_best(std::span<const RankScheduler> schedulers) {
    if (limit_ == 0) try_limits_around(way_.limit, [&](Tokens limit) { try_limit(schedulers, limit); });
    for (std::size_t least = 1; least < sizes_.size() && way_.limit > 0; ++least) {
      const double before = best_.seconds;
      use_groups_from(least);
      try_limit(schedulers, way_.limit);
      if (best_.seconds == before) break;
    }
  }

  /// Leaves out groups of the `least` smallest sizes from now on.
  void use_groups_from(std::size_t least) {
    rows_.emplace(
        lengths_, ranks_, std::vector(sizes_.begin() + static_cast<std::ptrdiff_t>(least), sizes_.end()),
        [&](Tokens length, std::size_t size) { return document_seconds(prices_.shared_by(size), length); });
  }

  void try_limit(std::span<const RankScheduler> schedulers, Tokens limit) {
    if (limit_ == 0 && limit < rows_->domain().least_limit()) return;
    for (const RankScheduler scheduler : schedulers) {
      if (scheduler != RankScheduler::nested) try_way({scheduler, limit, false});
      try_way({scheduler, limit, true});
    }
  }

  /// Plans rows, unless they are those that the scheduler made before. What is better than the best replaces it.
  void try_way(const Way& way) {
    std::vector<RankRow> made = (*rows_)(way.scheduler, way.limit, way.by_prices);
    std::vector<RankRow>& last = last_[static_cast<std::size_t>(way.scheduler)][way.by_prices ? 1 : 0];
    if (made == last) return;
    last = std::move(made);
    const bool one_by_one = way.scheduler == RankScheduler::balanced;
    RowPlan plan =
        schedule_rows(lengths_, last, ranks_, one_by_one, one_by_one && barriers_, scheduler_, best_.seconds);
    if (plan.seconds >= best_.seconds) return;
    best_ = std::move(plan);
    way_ = way;
  }

  std::span<const Tokens> lengths_;
  std::size_t ranks_;
  GroupPrices& prices_;
  Tokens limit_;
  bool barriers_;
  std::vector<std::size_t> sizes_;  // of groups, ascending
  Scheduler scheduler_;
  std::optional<RankSchedulers> rows_;
  std::array<std::array<std::vector<RankRow>, 2>, 4> last_;  // [scheduler][by prices]
  RowPlan best_;
  Way way_;
};

}  // namespace slimpack::detail
