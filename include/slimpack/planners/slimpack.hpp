#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/planners/assemble.hpp"
#include "slimpack/planners/distribute.hpp"
#include "slimpack/planners/notes.hpp"
#include "slimpack/planners/search.hpp"
#include "slimpack/planners/spread.hpp"
#include "slimpack/schedule/lower_bound.hpp"

namespace slimpack {

struct SlimPackOptions {
  Tokens tile = 128;       ///< slice boundaries are multiples of this, except at the end of a sample
  bool asymmetric = true;  ///< own boundaries for the backward pass; false for comparison only
  bool merge = true;       ///< DP-Merge for samples above a pipeline's capacity
  GroupSizes group_sizes = GroupSizes::any;
  bool equal_packs = false;  ///< the same number of packs on every pipeline, empty ones declared where needed
  std::size_t packs = 0;     ///< packs per pipeline and pass, or what comes closest; 0 = search
  std::size_t most_packs_per_stage = 48;  ///< largest candidate: this many times the stages
  int rebalance_rounds = 3;  ///< times that the simulated overhead of pipelines is fed back to Phase 1
};

namespace detail {

template <CostModel C, MemoryModel M>
[[nodiscard]] ScheduleSearchOptions search_options(Distributor<C, M>& distribute, const C& cost,
                                                   std::size_t pipelines, const SlimPackOptions& options) {
  const std::size_t stages = cost.stages();
  std::vector<std::size_t> counts{options.packs};
  if (options.packs == 0) counts = pack_counts(stages, options.most_packs_per_stage * stages);
  const double work = distribute.total_seconds() / static_cast<double>(pipelines);
  const double constants = cost.pack_seconds(0, Pass::forward) + cost.pack_seconds(0, Pass::backward);
  return {.micropack = {.tile = options.tile},
          .asymmetric = options.asymmetric,
          .equal_packs = options.equal_packs,
          .counts = counts,
          .first = first_count(counts, stages, work, constants)};
}

/// Seconds that each pipeline's schedule takes beyond its work as it was priced (to fill and drain, to wait, to
/// recompute), less the least of them.
inline std::vector<double> pipeline_overheads(const Candidate& candidate, std::span<const double> loads) {
  std::vector<double> overhead;
  for (std::size_t g = 0; g < candidate.groups.size(); ++g) {
    for (std::size_t i = 0; i < candidate.groups[g].size(); ++i)
      overhead.push_back(candidate.schedules[g].seconds - loads[overhead.size()]);
  }
  const double least = *std::min_element(overhead.begin(), overhead.end());
  for (double& o : overhead) o -= least;
  return overhead;
}

/// Merges as little as the capacity asks for. Where memory holds the pipelines of the longest samples back,
/// looks also at distributions that spread long samples further, so that their activations fit as they are;
/// and where nothing fits, at those that spread them as far as can be.
template <CostModel C, MemoryModel M>
[[nodiscard]] Candidate search_distributions(Distributor<C, M>& distribute, ScheduleSearch<C, M>& search,
                                             const M& memory, const SlimPackOptions& options) {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  const auto spread = [&](std::span<const double> shares, bool thorough) {
    return SpreadSearch<C, M>(distribute, search, memory, thorough).best_of(shares);
  };
  Candidate least_merged{.groups = distribute()}, best;
  best.seconds = unlimited;
  const bool may_fit =
      !options.merge || distribute.longest_part(least_merged.groups) <= tokens_without_recompute(memory);
  const bool fits = may_fit && search.look(least_merged, {.memory_bound = !options.merge});
  if (!fits) {
    best = spread(token_limits, false);
    if (best.seconds == unlimited) best = spread(token_limits, true);
    if (is_good(best)) return best;
  }
  if ((fits || search.look(least_merged, {.seconds = best.seconds * worth_improving})) &&
      least_merged.seconds <= best.seconds * worth_improving) {
    search.improve(least_merged);
    if (least_merged.seconds < best.seconds) best = std::move(least_merged);
  }
  return best.seconds == unlimited && options.merge ? spread(tight_token_limits, true) : std::move(best);
}

/// Feeds the simulated overhead of a candidate's pipelines back to Phase 1, as long as that makes the step shorter.
template <CostModel C, MemoryModel M>
[[nodiscard]] std::optional<Candidate> rebalanced(Distributor<C, M>& distribute, ScheduleSearch<C, M>& search,
                                                  int rounds, const Candidate& given) {
  std::optional<Candidate> best;
  for (int round = 0; round < rounds; ++round) {
    const Candidate& last = best ? *best : given;
    if (!is_unbalanced(last)) break;
    Candidate other{
        .most_tokens = last.most_tokens,
        .groups = distribute(last.most_tokens, pipeline_overheads(last, distribute.loads(last.groups)))};
    search.begin_like(last, other);
    if (!search.look(other, {.seconds = last.seconds}) || other.seconds >= last.seconds) break;
    best = std::move(other);
  }
  return best;
}

/// What is left of a search: the best candidate, all its members scheduled; without schedules where nothing fits.
struct Found {
  Candidate best;
  bool rebalanced = false;  ///< after its pipelines' overheads were balanced
};

/// Searches distributions and numbers of packs; what it needs for that is freed before a plan is made of what it finds.
template <CostModel C, MemoryModel M>
[[nodiscard]] Found find_schedules(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                   const M& memory, const SlimPackOptions& options) {
  const auto pipelines = static_cast<std::size_t>(job.layout.dp);
  const std::vector<std::int32_t> layers = split_layers(job.model.layers, job.layout.pp);
  Distributor<C, M> distribute(lengths, cost, memory, layers, pipelines,
                               {.merge = options.merge, .group_sizes = options.group_sizes});
  const ScheduleSearchOptions how = search_options(distribute, cost, pipelines, options);
  distribute.expect_packs(how.counts[how.first]);
  ScheduleSearch<C, M> search(lengths, cost, memory, layers, how);
  Candidate best = search_distributions(distribute, search, memory, options);
  if (best.seconds == std::numeric_limits<double>::infinity()) return {.best = std::move(best)};
  std::optional<Candidate> balanced = rebalanced(distribute, search, options.rebalance_rounds, best);
  search.finish(best);
  if (balanced) search.finish(*balanced);
  const bool faster = balanced && balanced->seconds < best.seconds;
  return {.best = std::move(faster ? *balanced : best), .rebalanced = faster};
}

/// Says why replicas or packs are unequal, where they are: step time comes first.
inline void note_imbalance(bool rebalanced, const SlimPackOptions& options, Plan& plan) {
  const PlanMetrics metrics = plan_metrics(plan);
  if (metrics.busiest_stage_imbalance > 1.005) {
    plan.notes.push_back(rebalanced ? "replicas hold unequal work because that makes the step shorter"
                         : options.merge
                             ? "replicas hold unequal work: of the distributions tried, the one with the "
                               "shortest step does not share it equally"
                             : "replicas hold unequal work: without merging, a sample stays on one of them");
  } else if (metrics.replica_imbalance > 1.005) {
    plan.notes.push_back(
        "replicas hold equal work on their busiest stages, which set the pace; their totals over all stages "
        "differ");
  }
  if (std::max(metrics.max_over_mean_forward, metrics.max_over_mean_backward) > 1.02) {
    plan.notes.push_back(
        concat("packs are unequal by more than 2 %: ",
               options.packs > 0 ? "their number was given"
               : !options.asymmetric
                   ? "backward packs have the boundaries of forward packs"
                   : "of the numbers of packs tried, the one with the shortest step has no equal ones",
               coarseness(metrics, options.tile)));
  }
}

}  // namespace detail

/// SlimPack (sections 4 and 5.1): samples over pipelines, outliers merged over several (Phase 1); forward and
/// backward MicroPacks of equal cost, each pass cut its own way, for every candidate number of packs (Phase
/// 2); PackFlow's order under the memory limit; of the candidates that the search simulates, the one with the
/// shortest step wins.
/// @param lengths tokens of every sample.
/// @param cost, memory models of the job's stages; any types that satisfy the concepts.
/// @throws InvalidInput if the batch or the job is impossible, or nothing fits into memory.
/// Complexity: O(candidates * (samples + packs * stages)) and O(n log n) to sort.
template <CostModel C, MemoryModel M>
[[nodiscard]] Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, const C& cost,
                                 const M& memory, const SlimPackOptions& options = {}) {
  validate(job);
  validate_batch(lengths, job.layout.dp);
  auto [best, rebalanced] = detail::find_schedules(lengths, job, cost, memory, options);
  const bool fits = best.seconds < std::numeric_limits<double>::infinity();
  require(fits, "no number of packs that was tried fits into the memory of ", memory.capacity_bytes() / 1e9,
          " GB per device, with all layers recomputed",
          options.packs > 0 ? ", or merged and local samples need more than the packs asked for" : "",
          "; expected shorter samples, more stages or more memory",
          options.packs > 0 || options.equal_packs ? ", or the number of packs left to the planner" : "");
  Plan plan = assemble_plan("slimpack", lengths, job, best.groups, std::move(best.schedules), memory,
                            sync_seconds(cost));
  state_lower_bound(step_lower_bound(lengths, plan.pipelines.size(), cost, options.tile).seconds(), plan);
  if (options.packs > 0) detail::note_fewer_packs(options.packs, options.tile, plan);
  detail::note_imbalance(rebalanced, options, plan);
  return plan;
}

/// The same with the calibrated cost model and the transformer's memory model.
[[nodiscard]] inline Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job,
                                        const SlimPackOptions& options = {}) {
  return plan_slimpack(lengths, job, CalibratedCost(job), TransformerMemory(job), options);
}

}  // namespace slimpack
