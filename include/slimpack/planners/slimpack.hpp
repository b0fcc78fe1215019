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

#include "slimpack/core/batch.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/check.hpp"
#include "slimpack/cost/features.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/partition/distribute.hpp"
#include "slimpack/plan/assemble.hpp"
#include "slimpack/planners/distribution_search.hpp"
#include "slimpack/planners/notes.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "slimpack/schedule/lower_bound.hpp"
#include "slimpack/slicing/cut_seconds.hpp"

namespace slimpack {

/// What the search of SlimPack tries.
struct SlimPackSearch {
  /// Numbers of packs and distributions are chosen with this tile, whatever the plan's own tile, so that a finer tile
  /// never makes a plan longer; or with a finer one, if otherwise a pipeline had few tiles for each of its stages.
  Tokens deciding_tile = 128;
  Tokens tiles_per_stage = 64;
  /// Where memory holds a distribution back, samples are spread over more pipelines: each holds at most these shares of
  /// the tokens of one sample that it holds without recomputation. Tried in turn until memory holds nothing back.
  std::vector<double> spreads = {
      std::numeric_limits<double>::infinity(), 0.75, 0.55, 0.4, 0.28, 0.2, 0.1, 0.05};
  double poor =
      1.1;  ///< without memory to blame, spreads go on while groups take more than so many times their work
  int rebalance_rounds = 3;  ///< times that the simulated overhead of pipelines is fed back to Phase 1
  double unbalanced = 1.01;  ///< as long as the slowest group takes so many times as long as the mean
  double hopeless = 1.15;    ///< a distribution that looks so many times as slow as the best is given up
  double improvable =
      1.005;  ///< one whose groups take so many times as long on average as the best takes is not searched
  double less_memory =
      0.9;  ///< where memory holds no schedule of a group, its members may hold this share of tokens
  bool whole_samples = true;  ///< also tries best-fit packs of whole samples, as `plan_megatron` makes them
};

struct SlimPackOptions {
  Tokens tile = 128;  ///< slice boundaries are multiples of this, except at the end of a sample
  bool asymmetric =
      true;           ///< own boundaries for the backward pass where they help; false for comparison only
  bool merge = true;  ///< DP-Merge to save time; without it, only for samples above a pipeline's memory
  GroupSizes group_sizes = GroupSizes::any;
  bool equal_packs = false;  ///< the same number of packs on every pipeline, empty ones declared where needed
  std::size_t packs = 0;     ///< packs per pipeline and pass, or what comes closest; 0 = search
  SlimPackSearch search = {};
};

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
class SlimPackPlanner {
 public:
  SlimPackPlanner(std::span<const Tokens> lengths, std::size_t pipelines, GroupPrices& prices,
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
        search_(groups_) {
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

  DistributionPlan best_distribution() {
    DistributionPlan best = distribution_decided_with(deciding_tile_);
    return best.seconds < infinite ? best : distribution_decided_with(options_.tile);
  }

  /// @param tile with which the distribution and its numbers of packs are chosen.
  DistributionPlan distribution_decided_with(Tokens tile) {
    groups_.options().tile = tile;
    DistributionPlan best;
    if (options_.merge && distribute_.largest_group() > 1) best = finished(merged());
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

  /// Without merging to save time. @param most gives up what takes no less.
  DistributionPlan unmerged(double most) {
    DistributionOptions wanted{.merge = false};
    DistributionPlan plan = looked_at(wanted, 0, infinite);
    if (plan.groups.empty() || plan.refused) return {};
    if (!search_.improve(plan, most)) {
      if (plan.seconds == infinite || slowest_takes(plan, most)) return {};
      search_.improve(plan);
    }
    return finished(std::move(plan), most);
  }

  /// Looks at the distribution that is wanted. If memory holds no schedule of a group, that is lowered which `wanted` says
  /// of memory, until all groups have one. @returns no groups if samples find no place.
  DistributionPlan looked_at(DistributionOptions& wanted, std::size_t packs, double most) {
    for (;;) {
      std::vector<SampleGroup> groups = distribute_(wanted);
      if (groups.empty()) return {};
      DistributionPlan plan = search_.look(std::move(groups), packs, most);
      if (!plan.refused || options_.packs > 0) return plan;
      wanted.memory_tokens =
          options_.search.less_memory * distribute_.most_tokens(plan.groups[*plan.refused]);
    }
  }

  /// Merged as little as balance asks for; and, where memory holds that back or it takes far more than its work, over more
  /// pipelines, so that each holds less of the longest samples.
  DistributionPlan merged() {
    std::vector<DistributionOptions> wanted;
    std::vector<DistributionPlan> plans;
    double least = infinite;
    double least_mean = infinite;
    double reference = tokens_;  // tokens of one sample on a pipeline that shares are of
    std::vector<SampleGroup> last;
    std::size_t packs = 0;
    for (const double share : options_.search.spreads) {
      DistributionOptions spread{.most_tokens = share * reference};
      DistributionPlan plan = looked_at(spread, packs, least * options_.search.hopeless);
      if (plan.groups.empty() || plan.groups == last) continue;
      last = plan.groups;
      const Schedule& usual = plan.plans.back().schedule;
      if (usual.fits() && !usual.memory_bound) packs = plan.plans.back().cut.packs;
      least = std::min(least, plan.seconds);
      const bool settled = plan.seconds < infinite && !memory_bound(plan);
      const double mean = settled ? DistributionSearch::mean_seconds(plan) : infinite;
      const bool worth_more = mean < least_mean && mean > options_.search.poor * distribute_.mean_seconds();
      least_mean = std::min(least_mean, mean);
      if (settled) reference = std::min(reference, distribute_.most_tokens(plan.groups));
      wanted.push_back(spread);
      plans.push_back(std::move(plan));
      if (settled && !worth_more) break;
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
      if (mean[i] > best.seconds * options_.search.improvable) break;
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
      std::vector<SampleGroup> groups = distribute_(wanted);
      if (groups.empty()) break;
      DistributionPlan plan = search_.look(std::move(groups), best.plans.back().cut.packs, infinite);
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

  /// Schedules all members of all groups with the plan's own tile or twice, four times, … as coarse a one, whichever is
  /// best: what suits a tile does not depend on the plan's own one. @param most gives up what takes no less.
  DistributionPlan finished(DistributionPlan plan, double most = infinite) {
    if (plan.seconds == infinite) return {};
    std::vector<GroupCut> cuts;
    for (const GroupPlan& group : plan.plans) cuts.push_back(group.cut);
    std::vector<std::size_t> order(plan.groups.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return plan.plans[a].schedule.seconds > plan.plans[b].schedule.seconds;
    });
    plan.seconds = infinite;
    if (allowed(cuts)) {
      for (std::size_t g = 0; g < cuts.size(); ++g) complete(plan.groups[g], plan.plans[g]);
      plan.seconds = DistributionSearch::slowest_seconds(plan);
    }
    for (const Tokens tile : tiles()) {
      std::vector<GroupPlan> plans = plans_with(tile, plan.groups, cuts, order, std::min(plan.seconds, most));
      if (plans.empty()) continue;
      plan.plans = std::move(plans);
      plan.seconds = DistributionSearch::slowest_seconds(plan);
    }
    return plan.seconds < most ? plan : DistributionPlan{};
  }

  /// The plan's own tile, then twice, four times, … as coarse ones until no sample is cut. Where the number of packs is
  /// given, only the plan's own: fewer come out of coarser ones.
  [[nodiscard]] std::vector<Tokens> tiles() const {
    std::vector<Tokens> tiles{options_.tile};
    while (options_.packs == 0 && tiles.back() < distribute_.longest()) tiles.push_back(2 * tiles.back());
    return tiles;
  }

  /// Whether these cuts are the plan's to make.
  [[nodiscard]] bool allowed(std::span<const GroupCut> cuts) const {
    return std::all_of(cuts.begin(), cuts.end(), [&](const GroupCut& cut) {
      const bool own = options_.packs > 0 ? cut.tile == options_.tile : cut.tile % options_.tile == 0;
      return own && (options_.asymmetric || !cut.asymmetric);
    });
  }

  /// Schedules all members of a group, of which one stood for all.
  void complete(const SampleGroup& group, GroupPlan& plan) {
    GroupCut cut = plan.cut;
    if (!cut.one_member) return;
    cut.one_member = false;
    groups_.load(group);
    groups_.try_cut(cut, infinite, plan);
    if (plan.schedule.fits()) return;
    groups_.options().one_member = false;
    groups_.search(0.0, plan);
    groups_.options().one_member = true;
  }

  /// All groups with one tile; none if a group takes `most` seconds or longer. @param order in which to try the groups.
  std::vector<GroupPlan> plans_with(Tokens tile, std::span<const SampleGroup> groups,
                                    std::span<const GroupCut> cuts, std::span<const std::size_t> order,
                                    double most) {
    std::vector<GroupPlan> plans(groups.size());
    for (const std::size_t g : order) {
      groups_.load(groups[g]);
      plans[g] = best_with(tile, cuts[g], most);
      if (!plans[g].schedule.fits()) return {};
    }
    return plans;
  }

  /// Whether the slowest group takes `most` seconds or longer with all tiles.
  bool slowest_takes(const DistributionPlan& plan, double most) {
    const std::size_t g = DistributionSearch::slowest(plan);
    groups_.load(plan.groups[g]);
    for (const Tokens tile : tiles()) {
      if (best_with(tile, plan.plans[g].cut, most).schedule.fits()) return false;
    }
    return true;
  }

  /// The best way to cut the group that is loaded with one tile, of those that take less than `most`.
  GroupPlan best_with(Tokens tile, GroupCut cut, double most) {
    const std::size_t packs = cut.packs;
    GroupPlan best;
    best.schedule.seconds = most;
    cut.tile = tile;
    cut.one_member = false;
    bool refused = try_boundaries(cut, best);
    const bool given = cut.exact || options_.packs > 0;
    // Fewer packs suit tiles coarser than that with which their number was chosen, and more packs hold less.
    for (Tokens share = 4; !given && share * deciding_tile_ <= tile && cut.packs > 1; share *= 4) {
      cut.packs = std::max<std::size_t>(1, packs / static_cast<std::size_t>(share));
      refused = try_boundaries(cut, best) && refused;
    }
    for (cut.packs = 4 * packs; !given && refused && cut.packs <= 64 * packs; cut.packs *= 4)
      refused = try_boundaries(cut, best);
    if (best.schedule.forward.packs.empty()) best.schedule.seconds = infinite;
    return best;
  }

  /// Both ways to cut the backward pass. @returns whether neither fits into memory.
  bool try_boundaries(GroupCut cut, GroupPlan& best) {
    bool refused = true;
    for (const bool asymmetric : {true, false}) {
      if (asymmetric && !options_.asymmetric) continue;
      cut.asymmetric = asymmetric;
      groups_.try_cut(cut, best.schedule.seconds, trial_);
      refused = refused && trial_.schedule.refused;
      if (trial_.schedule.seconds < best.schedule.seconds) std::swap(trial_, best);
    }
    return refused;
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
  GroupPlan trial_;
};

/// The schedules of the shortest step, and who runs them.
[[nodiscard]] inline std::vector<PlacedSchedule> best_schedules(std::span<const Tokens> lengths,
                                                                std::size_t pipelines, GroupPrices& prices,
                                                                const Memory& memory,
                                                                const SlimPackOptions& options) {
  SlimPackPlanner planner(lengths, pipelines, prices, memory, options);
  DistributionPlan best = planner();
  std::vector<PlacedSchedule> placed;
  const auto place = [&](std::size_t first, Schedule&& schedule) {
    std::vector<PipelineId> ids(schedule.pipelines);
    std::iota(ids.begin(), ids.end(), static_cast<PipelineId>(first));
    auto peaks = planner.scheduler().peak_bytes(schedule);
    placed.push_back({std::move(ids), std::move(schedule), std::move(peaks)});
  };
  if (options.search.whole_samples && options.packs == 0 && !options.equal_packs) {
    const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
    std::vector<std::size_t> shares = context_parallel_shares(pipelines, prices);
    std::erase_if(shares, [&](std::size_t share) {
      const bool power = (share & (share - 1)) == 0;
      return (!options.merge && share > 1) || (options.group_sizes == GroupSizes::powers_of_two && !power);
    });
    WholeSamplePlan whole =
        plan_whole_samples(lengths, longest, pipelines, shares, planner.scheduler(), {}, best.seconds);
    for (std::size_t g = 0; g < whole.schedules.size(); ++g)
      place(g * whole.share, std::move(whole.schedules[g]));
    if (whole.share > 0) return placed;
  }
  for (std::size_t g = 0; g < best.groups.size() && best.seconds < std::numeric_limits<double>::infinity();
       ++g)
    place(best.groups[g].first, std::move(best.plans[g].schedule));
  return placed;
}

/// Says why replicas or packs are unequal, where they are: step time comes first.
inline void note_imbalance(const SlimPackOptions& options, Plan& plan) {
  const PlanMetrics metrics = plan_metrics(plan);
  if (metrics.busiest_stage_imbalance > 1.005) {
    plan.notes.push_back(options.merge
                             ? "replicas hold unequal work: of the distributions tried, the one with the "
                               "shortest step does not share it equally"
                             : "replicas hold unequal work: without merging, a sample stays on one of them");
  } else if (metrics.replica_imbalance > 1.005) {
    plan.notes.push_back(
        "replicas hold equal work on their busiest stages, which set the pace; their totals over all stages "
        "differ");
  }
  if (std::max(metrics.max_over_mean_forward, metrics.max_over_mean_backward) > 1.02) {
    plan.notes.push_back(concat("packs are unequal by more than 2 %: ",
                                options.packs > 0 ? "their number was given"
                                : !options.asymmetric
                                    ? "backward packs have the boundaries of forward packs"
                                    : "of the candidates tried, the one with the shortest step has "
                                      "no equal ones",
                                coarseness(metrics, options.tile)));
  }
}

}  // namespace detail

/// `plan_slimpack` with prices of any model, for pipelines of one kind.
[[nodiscard]] inline Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                                        const Memory& memory, const SlimPackOptions& options = {}) {
  validate_batch(lengths, job.layout.dp);
  require(options.tile > 0, "tile is ", options.tile, "; expected at least 1 token");
  const auto pipelines = static_cast<std::size_t>(job.layout.dp);
  auto placed = detail::best_schedules(lengths, pipelines, prices, memory, options);
  require(!placed.empty(), "no number of packs that was tried fits into the memory of ",
          memory.capacity_bytes() / 1e9, " GB per device, with all layers recomputed",
          options.packs > 0 ? ", or merged and local samples need more than the packs asked for" : "",
          "; expected shorter samples, more stages or more memory",
          options.packs > 0 || options.equal_packs ? ", or the number of packs left to the planner" : "");
  Plan plan = assemble_plan("slimpack", lengths, job.model, job.device, layout_strategy(job),
                            std::move(placed), prices.alone().sync_seconds());
  const StepLowerBound bound = step_lower_bound(lengths, pipelines, prices);
  state_lower_bound(bound.seconds(), bound.exists, plan);
  if (options.packs > 0) detail::note_fewer_packs(options.packs, options.tile, plan);
  detail::note_imbalance(options, plan);
  return plan;
}

/// SlimPack (sections 4 and 5.1): samples over pipelines, outliers merged over several (Phase 1); forward and
/// backward MicroPacks of equal cost, each pass cut its own way, for every candidate number of packs (Phase
/// 2); PackFlow's order under the memory limit; of all candidates, the one with the shortest simulated step wins.
/// What an option restricts is among the candidates without it, so that more freedom never makes a plan longer.
/// @param lengths tokens of every sample.
/// @param cost, memory models of the job's stages; any types that satisfy the concepts.
/// @throws InvalidInput if the batch or the job is impossible, or nothing fits into memory.
/// Complexity: O(candidates * (samples + packs * stages)) and O(n log n) to sort.
template <CostModel C, MemoryModel M>
[[nodiscard]] Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                 const M& memory, const SlimPackOptions& options = {}) {
  check_models(cost, memory, layout_strategy(job));
  validate_batch(lengths, job.layout.dp);
  require_durations(cost, lengths);
  GroupPrices prices{Prices(cost)};
  const std::vector<std::int32_t> layers = split_layers(job.model.layers, job.layout.pp);
  Plan plan = plan_slimpack(lengths, job, prices, Memory(memory, layers, RecomputingCostModel<C>), options);
  for (std::string& note : missing_features(cost)) plan.notes.push_back(std::move(note));
  return plan;
}

/// The same with the calibrated cost model and the transformer's memory model.
[[nodiscard]] inline Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job,
                                        const SlimPackOptions& options = {}) {
  return plan_slimpack(lengths, job, CalibratedCost(job), TransformerMemory(job), options);
}

}  // namespace slimpack
