#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/distribute.hpp"
#include "slimpack/planners/slimpack_options.hpp"
#include "slimpack/planners/tile_search.hpp"
#include "slimpack/slicing/cut_seconds.hpp"

namespace slimpack {

namespace detail {

/// Most tokens of one sample that a pipeline holds with all layers computed again, or with none.
[[nodiscard]] inline double most_sample_tokens(const Memory& memory, bool recompute) {
  double most = std::numeric_limits<double>::infinity();
  for (std::size_t s = 0; s < memory.stages(); ++s) {
    const std::int32_t layers = recompute ? memory.recompute_limit(s) : 0;
    const double per_token = memory.activation_bytes(s, layers) + memory.kv_gradient_bytes(s);
    if (per_token > 0.0) most = std::min(most, memory.room_bytes(s) / per_token);
  }
  return most;
}

/// Searches distributions of samples over pipelines, each with its best schedules.
class DistributionCandidates {
 public:
  DistributionCandidates(std::span<const Tokens> lengths, std::size_t pipelines, GroupPrices& prices,
                         const Memory& memory, const SlimPackOptions& options)
      : options_(options),
        stages_(memory.stages()),
        constants_(prices.alone().pack_seconds(0, Pass::forward) +
                   prices.alone().pack_seconds(0, Pass::backward)),
        cut_seconds_(mean_cut_seconds(lengths,
                                      [&](Tokens begin, Tokens end) {
                                        return (prices.alone().pipeline_seconds(begin, end, Pass::forward) +
                                                prices.alone().pipeline_seconds(begin, end, Pass::backward)) /
                                               static_cast<double>(prices.alone().stages());
                                      })),
        tokens_(most_sample_tokens(memory, false)),
        deciding_tile_(deciding_tile(lengths, pipelines)),
        distribute_(lengths, prices, pipelines,
                    {.group_sizes = options.group_sizes, .memory_tokens = most_sample_tokens(memory, true)}),
        groups_(lengths, prices, memory,
                {.packs = options.packs, .tile = deciding_tile_, .exact = options.equal_packs}),
        search_(groups_),
        finished_(groups_, {.tile = options.tile,
                            .deciding_tile = deciding_tile_,
                            .longest = distribute_.longest(),
                            .asymmetric = options.asymmetric,
                            .packs_given = options.packs > 0}) {
    distribute_.require_memory();
    distribute_.expect_packs(options.packs > 0 ? options.packs : promising_packs());
  }

  /// The best plan of all candidates; its seconds are infinite if none fits.
  [[nodiscard]] DistributionPlan operator()() {
    if (!options_.equal_packs || options_.packs > 0) return best_distribution();
    DistributionPlan best;
    std::size_t best_packs = 1;
    const auto try_packs = [&](double wanted) {
      const auto packs = static_cast<std::size_t>(std::round(wanted));
      if (distribute_.mean_seconds() + wanted * constants_ >= best.seconds) return;
      groups_.options().packs = packs;
      DistributionPlan plan = best_distribution();
      if (plan.seconds >= best.seconds) return;
      best = std::move(plan);
      best_packs = packs;
    };
    for (std::size_t packs = 1; packs <= most_equal_packs(); packs *= 2)
      try_packs(static_cast<double>(packs));
    for (const double step : {0.5, 0.25}) {
      const auto middle = static_cast<double>(best_packs);
      for (const double factor : {std::exp2(-step), std::exp2(step)})
        try_packs(std::max(1.0, middle * factor));
    }
    return best;
  }

  [[nodiscard]] Scheduler& scheduler() { return groups_.scheduler(); }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Halved until each stage of a pipeline has enough tiles.
  [[nodiscard]] Tokens deciding_tile(std::span<const Tokens> lengths, std::size_t pipelines) const {
    const double tokens =
        std::accumulate(lengths.begin(), lengths.end(), 0.0) / static_cast<double>(pipelines * stages_);
    Tokens tile = options_.search.deciding_tile;
    while (tile > 1 && static_cast<double>(options_.search.tiles_per_stage * tile) > tokens) tile /= 2;
    return tile;
  }

  /// Decided with one tile for all plans; if that fits with none of the plan's tiles, with each of these.
  DistributionPlan best_distribution() {
    DistributionPlan best = distribution_decided_with(deciding_tile_);
    if (best.seconds < infinite) return best;
    for (const Tokens tile : finished_.tiles()) {
      DistributionPlan plan = distribution_decided_with(tile);
      if (plan.seconds < best.seconds) best = std::move(plan);
    }
    return best;
  }

  /// @param tile with which the distribution and its numbers of packs are chosen.
  DistributionPlan distribution_decided_with(Tokens tile) {
    groups_.options().tile = tile;
    DistributionPlan best;
    if (options_.merge && distribute_.largest_group() > 1) best = finished_(merged());
    DistributionPlan plan = unmerged(best.seconds);
    return plan.seconds < best.seconds ? plan : best;
  }

  /// Beyond 32 packs for each stage and twice what constants suggest, equal numbers of packs only cost time.
  [[nodiscard]] std::size_t most_equal_packs() { return std::max(32 * stages_, 2 * promising_packs()); }

  /// Where `stages - 1` packs of filling and draining cost as much as the constants of all packs and the cuts between them.
  [[nodiscard]] std::size_t promising_packs() {
    const double fill = (static_cast<double>(stages_) - 0.5) * distribute_.mean_seconds();
    const double pack = constants_ + cut_seconds_;
    return pack > 0.0 ? static_cast<std::size_t>(std::clamp(std::sqrt(fill / pack), 1.0, 1e6)) : 64;
  }

  /// Without merging to save time. @param most gives up what takes no less: above all the first pipeline, which has the
  /// longest sample.
  DistributionPlan unmerged(double most) {
    DistributionOptions wanted{.merge = false};
    std::vector<SampleGroup> groups = distribute_(wanted);
    if (groups.empty()) return {};
    if (most < infinite && takes(groups.front(), most)) return {};
    DistributionPlan plan = looked_at(wanted, 0, infinite);
    if (plan.groups.empty() || plan.refused) return {};
    search_.improve(plan);
    return finished_(std::move(plan), most);
  }

  /// Whether a group takes `most` seconds or longer, searched on its own.
  bool takes(const SampleGroup& group, double most) {
    GroupPlan plan;
    groups_.load(group);
    groups_.search(0.0, plan);
    return plan.schedule.seconds >= options_.search.hopeless * most ||
           (plan.schedule.seconds >= most && finished_.takes(group, plan.cut, most));
  }

  /// Looks at the distribution that is wanted. @returns no groups if samples find no place.
  DistributionPlan looked_at_once(const DistributionOptions& wanted, std::size_t packs, double most) {
    std::vector<SampleGroup> groups = distribute_(wanted);
    if (groups.empty()) return {};
    const std::vector<double> loads = distribute_.loads(groups);
    return search_.look(std::move(groups), loads, packs, most);
  }

  /// The same; if memory holds no schedule of a group, that is lowered which `wanted` says of memory, until all groups have
  /// one.
  DistributionPlan looked_at(DistributionOptions& wanted, std::size_t packs, double most) {
    for (;;) {
      DistributionPlan plan = looked_at_once(wanted, packs, most);
      if (!plan.refused || options_.packs > 0) return plan;
      wanted.memory_tokens =
          options_.search.less_memory * distribute_.most_tokens(plan.groups[*plan.given_up]);
    }
  }

  /// Merged as little as balance asks for; and, where memory holds that back or it takes far more than its work, over more
  /// pipelines, so that each holds less of the longest samples.
  DistributionPlan merged() {
    std::vector<DistributionOptions> wanted;
    std::vector<DistributionPlan> plans;
    double least = infinite, least_mean = infinite;
    bool last_one = false;
    double reference = tokens_;  // tokens of one sample on a pipeline that shares are of
    std::vector<SampleGroup> last;
    std::size_t packs = 0;
    for (const double share : options_.search.spreads) {
      DistributionOptions spread{.most_tokens = share * reference};
      DistributionPlan plan = looked_at(spread, packs, least * options_.search.hopeless);
      if (plan.groups.empty() || plan.groups == last) continue;
      last = plan.groups;
      if (plan.plans.back().schedule.fits()) packs = plan.plans.back().cut.packs;
      least = std::min(least, plan.seconds);
      const bool settled = plan.seconds < infinite && !memory_bound(plan);
      const double mean = settled ? DistributionSearch::mean_seconds(plan) : infinite;
      const bool worth_more = mean < least_mean && mean > options_.search.poor * distribute_.mean_seconds();
      least_mean = std::min(least_mean, mean);
      if (settled) reference = std::min(reference, distribute_.most_tokens(plan.groups));
      wanted.push_back(spread);
      plans.push_back(std::move(plan));
      if (last_one) break;
      last_one = settled && !worth_more;
    }
    return best_improved(wanted, plans);
  }

  /// Improves and balances the distributions from the most promising one on, as long as they can be better than the best
  /// so far.
  DistributionPlan best_improved(const std::vector<DistributionOptions>& wanted,
                                 std::vector<DistributionPlan>& plans) {
    std::vector<std::size_t> order;
    std::vector<double> mean(plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      if (plans[i].seconds == infinite) continue;
      order.push_back(i);
      mean[i] = DistributionSearch::mean_seconds(plans[i]);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return mean[a] < mean[b]; });
    DistributionPlan best;
    for (const std::size_t i : order) {
      if (mean[i] >= best.seconds) break;
      search_.improve(plans[i]);
      DistributionPlan plan = rebalanced(wanted[i], std::move(plans[i]));
      if (plan.seconds < best.seconds) best = std::move(plan);
    }
    return best;
  }

  [[nodiscard]] static bool memory_bound(const DistributionPlan& plan) {
    return std::any_of(plan.plans.begin(), plan.plans.end(),
                       [](const GroupPlan& group) { return group.schedule.memory_bound; });
  }

  /// Feeds the simulated overhead of pipelines back to Phase 1, as long as that makes the step shorter.
  DistributionPlan rebalanced(DistributionOptions wanted, DistributionPlan best) {
    for (int round = 0; round < options_.search.rebalance_rounds && unbalanced(best); ++round) {
      wanted.overhead = overheads(best);
      wanted.merged_overhead = 0.0;
      for (const SampleGroup& group : best.groups) {
        if (!group.merged.empty())
          wanted.merged_overhead = std::max(wanted.merged_overhead, wanted.overhead[group.first]);
      }
      DistributionPlan plan = looked_at_once(wanted, best.plans.back().cut.packs, infinite);
      if (plan.groups.empty()) break;
      search_.improve(plan, best.seconds);
      if (plan.seconds >= best.seconds) break;
      best = std::move(plan);
    }
    return best;
  }

  /// Whether the slowest group takes so much longer than the mean that its pipelines should get less work.
  [[nodiscard]] bool unbalanced(const DistributionPlan& plan) const {
    return plan.seconds < infinite &&
           plan.seconds > options_.search.unbalanced * DistributionSearch::mean_seconds(plan);
  }

  /// Seconds that each pipeline's schedule takes beyond its work as it was priced (to fill and drain, to wait, to
  /// recompute), less the least of them.
  [[nodiscard]] std::vector<double> overheads(const DistributionPlan& plan) {
    const std::vector<double> loads = distribute_.loads(plan.groups);
    std::vector<double> overhead(loads.size());
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      for (std::size_t i = 0; i < plan.groups[g].size(); ++i) {
        const std::size_t p = plan.groups[g].first + i;
        overhead[p] = plan.plans[g].schedule.seconds - loads[p];
      }
    }
    const double least = *std::min_element(overhead.begin(), overhead.end());
    for (double& o : overhead) o -= least;
    return overhead;
  }

  SlimPackOptions options_;
  std::size_t stages_;
  double constants_;  // of a forward and a backward pack
  double cut_seconds_;
  double tokens_;  // of one sample that a pipeline holds without recomputation
  Tokens deciding_tile_;
  Distributor distribute_;
  GroupSearch groups_;
  DistributionSearch search_;
  TileSearch finished_;
};

}  // namespace detail

}  // namespace slimpack
