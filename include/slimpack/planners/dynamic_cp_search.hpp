#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/partition/balanced_rank_rows.hpp"
#include "slimpack/partition/nested_rank_groups.hpp"
#include "slimpack/partition/packed_rank_rows.hpp"
#include "slimpack/planners/best_of.hpp"
#include "slimpack/planners/dynamic_cp_options.hpp"
#include "slimpack/planners/row_plans.hpp"
#include "slimpack/schedule/scheduler.hpp"
#include "slimpack/slicing/rank_packs.hpp"

namespace slimpack::detail {

/// Who makes the rows.
enum class RankScheduler : std::uint8_t {
  packed,           ///< `packed_rank_rows`
  balanced,         ///< `balanced_rank_rows`, samples one by one
  balanced_packed,  ///< the same with packs
  nested,           ///< `nested_rank_groups`
};

/// A scheduler's name in notes.
[[nodiscard]] constexpr const char* scheduler_name(RankScheduler scheduler) {
  switch (scheduler) {
    case RankScheduler::packed:
      return "the default scheduler";
    case RankScheduler::balanced:
      return "the balanced scheduler";
    case RankScheduler::balanced_packed:
      return "the balanced scheduler with packs";
    case RankScheduler::nested:
      break;
  }
  return "nested groups";
}

/// A schedule of all pipelines, and how it was made.
struct DynamicCpPlan {
  Schedule schedule;
  RankScheduler scheduler = RankScheduler::packed;
  Tokens limit = 0;           ///< tokens of a micro-batch on each rank
  bool by_prices = false;     ///< what decides in the scheduler; otherwise squared tokens
  double barrier_wait = 0.0;  ///< seconds that ranks wait at barriers beyond what the schedule has
  double seconds = std::numeric_limits<double>::infinity();  ///< with that
};

/// Looks for the scheduler and the limit of tokens per rank with the shortest step.
class DynamicCpSearch {
 public:
  /// All have to outlive this.
  DynamicCpSearch(std::span<const Tokens> lengths, std::size_t ranks, GroupPrices& prices,
                  const Memory& memory, const DynamicCpOptions& options)
      : lengths_(lengths),
        ranks_(ranks),
        prices_(prices),
        options_(options),
        one_stage_(memory.stages() == 1),
        sizes_(rank_group_sizes(ranks, [&](std::size_t size) { return prices.allows(size); })),
        longest_(*std::max_element(lengths.begin(), lengths.end())),
        scheduler_(lengths, prices, memory) {}

  /// The best plan; its seconds are infinite if none fits. slimpack's own groups come last, so that they can't make it longer.
  [[nodiscard]] DynamicCpPlan operator()() {
    search(std::array{RankScheduler::packed, RankScheduler::balanced_packed, RankScheduler::balanced});
    if (options_.nested) search(std::array{RankScheduler::nested});
    return std::move(best_);
  }

  /// The best of slimpack's own groups alone, if any takes less than `most` seconds; otherwise its seconds are infinite.
  [[nodiscard]] DynamicCpPlan nested(double most) {
    best_.seconds = most;
    search(std::array{RankScheduler::nested}, true);
    if (best_.limit == 0) best_.seconds = infinite;
    return std::move(best_);
  }

  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Tries all limits, then some around the best one, then that without groups of the smallest sizes as long as that helps.
  /// @param doubtful gives up if no plan with every second limit that is promising is good enough.
  void search(std::span<const RankScheduler> schedulers, bool doubtful = false) {
    use_groups_from(0);
    const std::vector<Tokens> all = limits();
    for (std::size_t i = 0; doubtful && i < all.size(); i += 2) {
      if (promising(all[i])) try_limit(schedulers, all[i]);
    }
    if (doubtful && best_.limit == 0) return;
    for (std::size_t i = doubtful ? 1 : 0; i < all.size(); i += doubtful ? 2 : 1)
      try_limit(schedulers, all[i]);
    for (const double step : {0.25, 0.125}) {
      if (options_.limit > 0 || best_.limit == 0) break;
      const auto middle = static_cast<double>(best_.limit);
      for (const double direction : {1.0, -1.0})
        try_limit(schedulers, static_cast<Tokens>(middle * std::exp2(direction * step)));
    }
    for (std::size_t least = 1; least < sizes_.size() && best_.limit > 0; ++least) {
      const double before = best_.seconds;
      use_groups_from(least);
      try_limit(schedulers, best_.limit);
      if (best_.seconds == before) break;
    }
  }

  /// Fewest tokens of a rank with which the largest group holds the longest sample.
  [[nodiscard]] Tokens least_limit() const {
    const auto largest = static_cast<Tokens>(sizes_.back());
    return (longest_ + largest - 1) / largest;
  }

  [[nodiscard]] std::vector<Tokens> limits() const {
    if (options_.limit > 0) return {options_.limit};
    return limits_of_tokens(lengths_, domains_.front().ranks(), static_cast<double>(least_limit()));
  }

  /// Whether packs of so many tokens on each rank leave a chance of a better plan than the best: ranks have equal work,
  /// samples run on the smallest groups that the limit allows, and equal packs would take twice as long as this to fill
  /// and drain their pipelines.
  [[nodiscard]] bool promising(Tokens limit) const {
    const RankDomain& domain = domains_.back();
    double work = 0.0, tokens = 0.0;
    for (SampleId id = 0; id < domain.samples(); ++id) {
      const std::size_t place = domain.least_place(id, limit);
      work += domain.work(id, place) * static_cast<double>(domain.size(place));
      tokens += static_cast<double>(domain.length(id));
    }
    const double packs = std::max(1.0, tokens / static_cast<double>(ranks_) / static_cast<double>(limit));
    const auto stages = static_cast<double>(prices_.alone().stages());
    return work / static_cast<double>(ranks_) / stages * (1.0 + (stages - 1.0) / packs) < best_.seconds;
  }

  /// Leaves out groups of the `least` smallest sizes from now on.
  void use_groups_from(std::size_t least) {
    const std::vector<std::size_t> sizes(sizes_.begin() + static_cast<std::ptrdiff_t>(least), sizes_.end());
    domains_.clear();
    nested_.clear();
    domains_.reserve(2);
    domains_.emplace_back(lengths_, ranks_, sizes, squared_tokens);
    domains_.emplace_back(lengths_, ranks_, sizes, [&](Tokens length, std::size_t size) {
      return document_seconds(prices_.shared_by(size), length);
    });
    for (const RankDomain& domain : domains_) nested_.emplace_back(domain);
  }

  void try_limit(std::span<const RankScheduler> schedulers, Tokens limit) {
    if (limit < least_limit() && options_.limit == 0) return;
    for (const RankScheduler scheduler : schedulers) {
      if (scheduler != RankScheduler::nested) try_one(scheduler, limit, false);
      try_one(scheduler, limit, true);
    }
  }

  [[nodiscard]] std::vector<RankRow> rows(RankScheduler scheduler, Tokens limit, bool by_prices) {
    const RankDomain& domain = domains_[by_prices ? 1 : 0];
    switch (scheduler) {
      case RankScheduler::packed:
        return packed_rank_rows(domain, limit);
      case RankScheduler::nested:
        return nested_[by_prices ? 1 : 0](limit);
      case RankScheduler::balanced:
      case RankScheduler::balanced_packed:
        break;
    }
    return balanced_rank_rows(domain, limit, scheduler == RankScheduler::balanced_packed);
  }

  /// Plans rows of one scheduler, unless they are those that it made before. What is better than the best replaces it.
  void try_one(RankScheduler scheduler, Tokens limit, bool by_prices) {
    std::vector<RankRow> made = rows(scheduler, limit, by_prices);
    std::vector<RankRow>& last = last_[static_cast<std::size_t>(scheduler)][by_prices ? 1 : 0];
    if (made == last) return;
    last = std::move(made);
    RankPacks packs = rank_packs(lengths_, last, ranks_, scheduler == RankScheduler::balanced);
    DynamicCpPlan plan{.schedule = {}, .scheduler = scheduler, .limit = limit, .by_prices = by_prices};
    plan.schedule.pipelines = ranks_;
    plan.schedule.forward = plan.schedule.backward = std::move(packs.packs);
    scheduler_(plan.schedule, {.fit = FitPolicy::recompute}, best_.seconds);
    if (one_stage_ && scheduler == RankScheduler::balanced)
      plan.barrier_wait = barrier_wait(plan.schedule, packs.row);
    plan.seconds = plan.schedule.seconds + plan.barrier_wait;
    improve(std::move(plan), best_);
  }

  std::span<const Tokens> lengths_;
  std::size_t ranks_;
  GroupPrices& prices_;
  DynamicCpOptions options_;
  bool one_stage_;
  std::vector<std::size_t> sizes_;  // of groups, ascending
  Tokens longest_;
  Scheduler scheduler_;
  std::vector<RankDomain> domains_;                          // work by squared tokens and by prices
  std::vector<NestedRankGroups> nested_;                     // of each domain
  std::array<std::array<std::vector<RankRow>, 2>, 4> last_;  // [scheduler][by prices]
  DynamicCpPlan best_;
};

/// Notes who made the plan's rows, and what is slimpack's own in them.
inline void note_rows(const DynamicCpPlan& best, bool one_stage, Plan& plan) {
  plan.notes.push_back(concat("rows by ", scheduler_name(best.scheduler), ", deciding by ",
                              best.by_prices ? "prices" : "squared tokens", ", with at most ", best.limit,
                              " tokens of a micro-batch on each rank"));
  if (best.scheduler == RankScheduler::balanced && !one_stage)
    plan.notes.emplace_back(
        "Megatron Core's balanced scheduler has no pipeline stages: that its rows run in 1F1B order, and "
        "without "
        "barriers, is slimpack's own");
}

/// `plan_dynamic_cp` with prices and memory of any models.
[[nodiscard]] inline Plan search_dynamic_cp(std::span<const Tokens> lengths, const Job& job,
                                            GroupPrices& prices, const Memory& memory,
                                            const DynamicCpOptions& options) {
  validate_batch(lengths, job.layout.dp);
  require(options.limit >= 0, "limit is ", options.limit, "; expected 0 or a positive number of tokens");
  const auto ranks = static_cast<std::size_t>(job.layout.dp);
  DynamicCpSearch search(lengths, ranks, prices, memory, options);
  DynamicCpPlan best = search();
  require(best.schedule.fits(), "no rows of micro-batches that were tried fit into ", memory.capacity_text(),
          " with groups of up to dp = ", job.layout.dp,
          " pipelines and all layers recomputed; expected shorter samples, more stages or more memory",
          options.limit > 0 ? ", or the limit of tokens left to the planner" : "");
  RowPlan rows{std::move(best.schedule), best.barrier_wait, best.seconds};
  Plan plan = assemble_rows("dynamic-cp", lengths, job, std::move(rows), prices, search.scheduler());
  note_rows(best, memory.stages() == 1, plan);
  return plan;
}

}  // namespace slimpack::detail
