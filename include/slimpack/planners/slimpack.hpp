#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
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

/// The groups of a candidate that take least and longest.
inline auto fastest_and_slowest(const Candidate& candidate) {
  return std::minmax_element(
      candidate.schedules.begin(), candidate.schedules.end(),
      [](const GroupSchedule& a, const GroupSchedule& b) { return a.seconds < b.seconds; });
}

/// Whether memory makes the slowest group slower than another, which has the same work, by more than 1 %, or all groups
/// slower than they could be.
[[nodiscard]] inline bool held_back(const Candidate& candidate) {
  const auto [fastest, slowest] = fastest_and_slowest(candidate);
  return slowest->memory_bound && (fastest->memory_bound || slowest->seconds > 1.01 * fastest->seconds);
}

/// Whether the slowest group is so far behind another that a different distribution promises more than other numbers
/// of packs.
[[nodiscard]] inline bool lags_far_behind(const Candidate& candidate) {
  const auto [fastest, slowest] = fastest_and_slowest(candidate);
  return slowest->seconds > 1.05 * fastest->seconds;
}

/// Whether the slowest group takes so much longer than the mean that its pipelines should get less work.
[[nodiscard]] inline bool is_unbalanced(const Candidate& candidate) {
  double sum = 0.0, pipelines = 0.0;
  for (std::size_t g = 0; g < candidate.schedules.size(); ++g) {
    const auto members = static_cast<double>(candidate.groups[g].size());
    sum += candidate.schedules[g].seconds * members;
    pipelines += members;
  }
  return candidate.seconds * pipelines > 1.02 * sum;
}

/// Whether neither memory nor its distribution makes a candidate longer than others may be.
[[nodiscard]] inline bool is_good(const Candidate& candidate) {
  return candidate.seconds < std::numeric_limits<double>::infinity() && !held_back(candidate) &&
         !is_unbalanced(candidate);
}

/// Limits to what a member holds of one sample, as shares of the tokens that a stage holds without
/// recomputation.
inline constexpr double token_limits[] = {0.55, 0.35, 0.2};

/// The first so many of them are tried at once; further ones if none of these is good, but one is something.
inline constexpr std::size_t usual_limits = 2;

/// The same for batches that would not fit otherwise.
inline constexpr double tight_token_limits[] = {0.1, 0.05, 0.0};

/// A group that takes this many times as long as another marks its distribution as a bad one.
inline constexpr double most_lag = 1.15;

/// Other numbers of packs can be expected to make a candidate faster by this factor.
inline constexpr double worth_improving = 1.02;

/// Tokens of one sample that the first stage holds from forward to backward if it recomputes nothing.
template <MemoryModel M>
[[nodiscard]] double tokens_without_recompute(const M& memory) {
  const double room = memory.capacity_bytes() - memory.static_bytes(0);
  return room / (memory.activation_bytes(0, 0) + memory.kv_gradient_bytes(0));
}

/// The best of the distributions whose members hold at most so many tokens of one sample, as `shares` of what a
/// stage holds without recomputation; up to the first one that memory does not hold back. Their merged groups decide
/// which it is; only of that one are other groups looked at.
/// @param thorough false: gives up those of which some group lags far behind, or does not fit with the usual
/// number of packs.
template <CostModel C, MemoryModel M>
[[nodiscard]] Candidate search_spread(Distributor<C, M>& distribute, ScheduleSearch<C, M>& search,
                                      const M& memory, std::span<const double> shares, bool thorough) {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  const double whole = tokens_without_recompute(memory);
  std::vector<Candidate> spreads;
  double least = unlimited;
  const auto patience = [&](bool alone) {
    return typename ScheduleSearch<C, M>::Patience{.seconds = least * worth_improving,
                                                   .ratio = thorough ? unlimited : most_lag,
                                                   .any_count = thorough,
                                                   .alone = alone};
  };
  for (const double share : shares) {
    if (!thorough && share < shares[usual_limits - 1] && spreads.empty()) break;
    if (share * whole >= static_cast<double>(distribute.longest())) continue;
    Candidate spread{.most_tokens = share * whole, .groups = distribute(share * whole)};
    if (!spreads.empty()) {
      const std::vector<double> loads = distribute.loads(spread.groups);
      if (*std::max_element(loads.begin(), loads.end()) > least * worth_improving) continue;
    }
    if (!search.look(spread, patience(false))) continue;
    const bool is_last = share == shares.back();
    if (!is_good(spread) && (is_last || !lags_far_behind(spread))) search.improve(spread);
    least = std::min(least, spread.seconds);
    spreads.push_back(std::move(spread));
    if (is_good(spreads.back())) break;
  }
  std::stable_sort(spreads.begin(), spreads.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  Candidate best;
  best.seconds = least = unlimited;
  for (Candidate& spread : spreads) {
    if (spread.seconds >= best.seconds || !search.look(spread, patience(true))) continue;
    search.improve(spread);
    if (spread.seconds < best.seconds) best = std::move(spread);
    least = best.seconds;
  }
  return best;
}

/// Merges as little as the capacity asks for. Where memory holds the pipelines of the longest samples back,
/// looks also at distributions that spread long samples further, so that their activations fit as they are;
/// and where nothing fits, at those that spread them as far as can be.
template <CostModel C, MemoryModel M>
[[nodiscard]] Candidate search_distributions(Distributor<C, M>& distribute, ScheduleSearch<C, M>& search,
                                             const M& memory, const SlimPackOptions& options) {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  const auto spread = [&](std::span<const double> shares, bool thorough) {
    return search_spread(distribute, search, memory, shares, thorough);
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

/// Schedules all members of a candidate's groups, and of what becomes of it when pipelines' overheads are balanced; the
/// faster one counts. Returns whether that is the balanced one. Does nothing where nothing fits.
template <CostModel C, MemoryModel M>
bool finish(Distributor<C, M>& distribute, ScheduleSearch<C, M>& search, int rounds, Candidate& best) {
  if (best.seconds == std::numeric_limits<double>::infinity()) return false;
  std::optional<Candidate> balanced = rebalanced(distribute, search, rounds, best);
  search.finish(best);
  if (!balanced) return false;
  search.finish(*balanced);
  if (balanced->seconds >= best.seconds) return false;
  best = std::move(*balanced);
  return true;
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
  const auto pipelines = static_cast<std::size_t>(job.layout.dp);
  Distributor<C, M> distribute(lengths, cost, memory, split_layers(job.model.layers, job.layout.pp),
                               pipelines, {.merge = options.merge, .group_sizes = options.group_sizes});
  const ScheduleSearchOptions how = detail::search_options(distribute, cost, pipelines, options);
  distribute.expect_packs(how.counts[how.first]);
  ScheduleSearch<C, M> search(lengths, cost, memory, split_layers(job.model.layers, job.layout.pp), how);
  Candidate best = detail::search_distributions(distribute, search, memory, options);
  const bool rebalanced = detail::finish(distribute, search, options.rebalance_rounds, best);
  const bool fits = best.seconds < std::numeric_limits<double>::infinity();
  require(fits, "no number of packs that was tried fits into the memory of ", memory.capacity_bytes() / 1e9,
          " GB per device, with all layers recomputed",
          options.packs > 0 ? ", or merged and local samples need more than the packs asked for" : "",
          "; expected shorter samples, more stages or more memory",
          options.packs > 0 || options.equal_packs ? ", or the number of packs left to the planner" : "");
  Plan plan = assemble_plan("slimpack", lengths, job, best.groups, std::move(best.schedules), memory,
                            sync_seconds(cost));
  state_lower_bound(step_lower_bound(lengths, pipelines, cost, options.tile).seconds(), plan);
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
