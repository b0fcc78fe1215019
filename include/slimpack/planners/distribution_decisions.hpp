#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/distribute.hpp"
#include "slimpack/planners/distribution_search.hpp"
#include "slimpack/planners/slimpack_options.hpp"

namespace slimpack {

namespace detail {

/// Distributions that were looked at.
struct DistributionLooks {
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  double least = infinite;     ///< seconds of the best, or of one that was known before
  double shortest = infinite;  ///< of those that were looked at, `DistributionPlan::known_seconds`
  int in_vain = 0;             ///< how many of the latest, one after another, are no shorter than `shortest`
  double packs = 0.0;          ///< of the latest, `GroupPlan::relative_packs`
  double memory_tokens = infinite;  ///< of one sample, that a member holds at most: more were refused
  std::vector<DistributionOptions> wanted = {};
  std::vector<DistributionPlan> plans = {};
};

/// The distribution without a limit of a sample's tokens, if `DistributionDecisions::merged` began with it; often it merges nothing.
struct FreeDistribution {
  DistributionPlan plan = {};
  GroupScheduler::Options options = {};  ///< that it was looked at with
  Care care = Care::full;                ///< the same
  bool improved = false;
};

/// Numbers of the distributions that have a plan, the most promising one first.
[[nodiscard]] inline std::vector<std::size_t> promising_order(std::span<const DistributionPlan> plans) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].seconds < DistributionLooks::infinite) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return plans[i].mean_seconds(); });
  return order;
}

/// Keeps the shortest plans, the shortest one first: those up to `close` times as long as it, `most` of them.
inline void keep_best(std::vector<DistributionPlan>& plans, double close, std::size_t most) {
  std::ranges::stable_sort(plans, {}, &DistributionPlan::seconds);
  const double least = plans.empty() ? 0.0 : plans.front().seconds;
  std::erase_if(plans, [&](const DistributionPlan& plan) {
    return plan.seconds == DistributionLooks::infinite || plan.seconds > close * least;
  });
  if (plans.size() > most) plans.resize(most);
}

/// Decides which pipelines run which samples, and in about how many packs each.
class DistributionDecisions {
 public:
  /// @param tokens most tokens of one sample that a pipeline holds without recomputation.
  /// @param distribute, groups have to outlive this.
  DistributionDecisions(const SlimPackOptions& options, double tokens, Distributor& distribute,
                        GroupSearch& groups)
      : options_(options.search),
        packs_given_(options.packs > 0),
        tokens_(tokens),
        distribute_(distribute),
        groups_(groups),
        search_(groups, options.search.similar) {}

  /// The best distributions, the best one first: `SlimPackSearch::alternatives` at most, and none if nothing fits.
  /// @param merge whether samples may be merged to save time; otherwise there is one distribution.
  /// @param most gives up what looks far longer.
  [[nodiscard]] std::vector<DistributionPlan> operator()(bool merge, double most) {
    if (merge) return merged(most);
    std::vector<DistributionPlan> only;
    if (DistributionPlan plan = unmerged(most); plan.seconds < infinite) only.push_back(std::move(plan));
    return only;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// The best of distributions that merge as little as balance requires and of those that spread the longest sample
  /// further: over 2, 3, 4, 6, 8, 12, … pipelines at least, as long as samples can be spread and that seems worth it.
  /// The limits do not depend on memory, so that more of it takes none away.
  [[nodiscard]] std::vector<DistributionPlan> merged(double most) {
    DistributionLooks looks{.least = most};
    const std::vector<SampleGroup> free = distribute_({});
    const bool free_last = free.empty() || distribute_.most_tokens(free) > tokens_;
    free_ = {};
    bool more = free_last || look({}, looks);
    if (!free_last && most == infinite && !looks.plans.empty())
      free_ = {looks.plans.front(), groups_.options(), groups_.care()};
    more = more && distribute_.largest_group() > 1;
    for (double limit = static_cast<double>(distribute_.longest()) / 2.0; more && limit >= 1.0;
         limit /= 2.0) {
      for (const double part : {1.0, 2.0 / 3.0}) more = more && look({.most_tokens = part * limit}, looks);
    }
    if (free_last) look({}, looks);
    return best_improved(looks);
  }

  /// The distribution that merges no sample to save time.
  [[nodiscard]] DistributionPlan unmerged(double most) {
    DistributionOptions wanted{.merge = false};
    const bool known = !free_.plan.groups.empty() && most == infinite && free_.options == groups_.options() &&
                       free_.care == groups_.care() && distribute_(wanted) == free_.plan.groups;
    DistributionPlan plan = known ? free_.plan : looked_at(wanted, 0.0, most * options_.hopeless);
    if (plan.groups.empty() || plan.given_up) return {};
    if (!known || !free_.improved) search_.improve(plan);
    return plan;
  }

  /// Looks at a distribution unless it is the latest one. @returns whether samples can be spread further, and may be worth it.
  bool look(DistributionOptions wanted, DistributionLooks& looks) {
    const std::span<const SampleGroup> latest =
        looks.plans.empty() ? std::span<const SampleGroup>() : looks.plans.back().groups;
    wanted.memory_tokens = looks.memory_tokens;
    DistributionPlan plan = looked_at(wanted, looks.packs, looks.least * options_.hopeless, latest);
    looks.memory_tokens = wanted.memory_tokens;
    if (plan.groups.empty()) return true;
    if (const double packs = plan.plans.back().relative_packs(); packs > 0.0) looks.packs = packs;
    const double known = plan.known_seconds();
    looks.in_vain = known < looks.shortest || looks.shortest == infinite ? 0 : looks.in_vain + 1;
    looks.shortest = std::min(looks.shortest, known);
    looks.least = std::min(looks.least, plan.seconds);
    const bool overloaded = plan.overloaded && looks.in_vain > 0;
    const bool more = looks.in_vain < options_.looks_in_vain && !overloaded && !plan.all_merged();
    looks.wanted.push_back(wanted);
    looks.plans.push_back(std::move(plan));
    return more;
  }

  /// Makes the wanted distribution, and looks at it (`DistributionSearch::look`) unless it is `known`. @returns no groups if it
  /// is, or if a sample has no place.
  DistributionPlan looked_at_once(const DistributionOptions& wanted, double packs, double most,
                                  std::span<const SampleGroup> known = {}) {
    std::vector<SampleGroup> groups = distribute_(wanted);
    if (groups.empty() || std::ranges::equal(groups, known)) return {};
    const std::vector<double> loads = distribute_.loads(groups);
    return search_.look(std::move(groups), loads, packs, most);
  }

  /// The same; while some group has no schedule that fits into memory, lowers `wanted.memory_tokens` and distributes again.
  DistributionPlan looked_at(DistributionOptions& wanted, double packs, double most,
                             std::span<const SampleGroup> known = {}) {
    for (;;) {
      DistributionPlan plan = looked_at_once(wanted, packs, most, known);
      if (plan.groups.empty()) return plan;
      if (!plan.refused() || packs_given_) return plan;
      wanted.memory_tokens =
          options_.less_memory * distribute_.most_tokens({&plan.groups[*plan.given_up], 1});
    }
  }

  /// Improves and balances the distributions, the most promising one first, as long as they can be close to the best so
  /// far. @returns the best ones.
  std::vector<DistributionPlan> best_improved(DistributionLooks& looks) {
    std::vector<DistributionPlan>& plans = looks.plans;
    std::vector<DistributionPlan> best;
    double least = infinite;
    for (const std::size_t i : promising_order(plans)) {
      if (plans[i].mean_seconds() >= options_.close * least) break;
      search_.improve(plans[i]);
      if (i == 0 && !free_.plan.groups.empty()) free_ = {plans[i], groups_.options(), groups_.care(), true};
      best.push_back(rebalanced(looks.wanted[i], std::move(plans[i])));
      least = std::min(least, best.back().seconds);
    }
    keep_best(best, options_.close, options_.alternatives);
    return best;
  }

  /// Feeds the simulated overhead of pipelines back to Phase 1, as long as that makes the step shorter.
  DistributionPlan rebalanced(DistributionOptions wanted, DistributionPlan best) {
    for (int round = 0; round < options_.rebalance_rounds && unbalanced(best); ++round) {
      wanted.overhead = best.overheads(distribute_.loads(best.groups));
      wanted.merged_overhead = 0.0;
      for (const SampleGroup& group : best.groups) {
        if (!group.merged.empty())
          wanted.merged_overhead = std::max(wanted.merged_overhead, wanted.overhead[group.first]);
      }
      DistributionPlan plan = looked_at_once(wanted, best.plans[best.slowest()].relative_packs(), infinite);
      if (plan.groups.empty()) break;
      search_.improve(plan, best.seconds);
      if (plan.seconds >= best.seconds) break;
      best = std::move(plan);
    }
    return best;
  }

  /// Whether the slowest group takes so much longer than the mean that its pipelines should get less work.
  [[nodiscard]] bool unbalanced(const DistributionPlan& plan) const {
    return plan.seconds < infinite && plan.seconds > options_.unbalanced * plan.mean_seconds();
  }

  SlimPackSearch options_;
  bool packs_given_;
  double tokens_;
  Distributor& distribute_;
  GroupSearch& groups_;
  DistributionSearch search_;
  FreeDistribution free_;
};

}  // namespace detail

}  // namespace slimpack
