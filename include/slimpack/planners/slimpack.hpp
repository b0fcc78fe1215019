#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/planners/assemble.hpp"
#include "slimpack/planners/candidates.hpp"
#include "slimpack/planners/distribute.hpp"
#include "slimpack/schedule/lower_bound.hpp"

namespace slimpack {

struct SlimPackOptions {
  Tokens tile = 128;       ///< slice boundaries are multiples of this, except at the end of a sample
  bool asymmetric = true;  ///< own boundaries for the backward pass; false for comparison only
  bool merge = true;       ///< DP-Merge for samples above a pipeline's capacity
  GroupSizes group_sizes = GroupSizes::any;
  bool equal_packs = false;  ///< the same number of packs on every pipeline, empty ones declared where needed
  std::size_t packs = 0;     ///< packs per pipeline and pass; 0 = search
  std::size_t most_packs_per_stage = 48;  ///< largest candidate: this many times the stages
  int rebalance_rounds = 1;  ///< times that the simulated overhead of pipelines is fed back to Phase 1
};

namespace detail {

/// The best candidates of all groups of a distribution.
struct SlimPackResult {
  double seconds = std::numeric_limits<double>::infinity();
  std::vector<GroupSchedule> schedules;
};

/// The search for the shortest step over a distribution's candidates.
template <CostModel C, MemoryModel M>
class SlimPackSearch {
 public:
  SlimPackSearch(std::span<const Tokens> lengths, const Job& job, const C& cost, const M& memory,
                 const SlimPackOptions& options)
      : options_(options),
        stages_(cost.stages()),
        evaluate_(lengths, cost, memory, split_layers(job.model.layers, job.layout.pp),
                  {.tile = options.tile}, options.asymmetric, options.equal_packs) {
    if (options.packs > 0) {
      counts_ = {options.packs};
    } else {
      counts_ = pack_counts(cost.stages(), options.most_packs_per_stage * cost.stages());
    }
  }

  using Result = SlimPackResult;

  /// A group has to be slower than all before it by this factor for a search of its own.
  static constexpr double worth_a_search = 1.001;
  /// A first candidate that misses the incumbent by this factor.
  static constexpr double not_worth_a_search = 1.15;

  /// Shortest step over the groups' candidates; gives up, with infinite seconds, once a group can't beat `incumbent`.
  Result operator()(std::span<const SampleGroup> groups, double incumbent) {
    return options_.equal_packs ? equal(groups) : each(groups, incumbent);
  }

  /// Schedule of a group with the number of packs at which the search starts.
  [[nodiscard]] const GroupSchedule& probe(const SampleGroup& group) {
    evaluate_(group, counts_[start_], candidate_);
    return candidate_;
  }

  /// Where the search begins: `(stages - 1)` packs of fill and drain against the constants of all packs.
  void start_near(double seconds_per_stage, double pack_constants) {
    const double stages = static_cast<double>(stages_);
    const double best =
        pack_constants > 0.0 ? std::sqrt((stages - 1.0) * seconds_per_stage / pack_constants) : 1e9;
    start_ = 0;
    while (start_ + 1 < counts_.size() && static_cast<double>(counts_[start_ + 1]) <= best) ++start_;
  }

 private:
  /// Every group takes its own best number of packs. Groups that are faster than the slowest one's best need no
  /// search of their own.
  Result each(std::span<const SampleGroup> groups, double incumbent) {
    Result result;
    result.schedules.resize(groups.size());
    result.seconds = 0.0;
    std::size_t first = start_;
    for (std::size_t g = 0; g < groups.size() && result.seconds < incumbent; ++g) {
      GroupSchedule& best = result.schedules[g];
      evaluate_(groups[g], counts_[first], best);
      if (best.seconds > incumbent * not_worth_a_search) return {};
      if (best.seconds > result.seconds * worth_a_search)
        first = search(groups[g], first, result.seconds, best);
      result.seconds = std::max(result.seconds, best.seconds);
    }
    if (result.seconds >= incumbent) result.seconds = std::numeric_limits<double>::infinity();
    return result;
  }

  /// Improves `best`, found at `counts_[first]`, until it is not above `enough` or both directions stop to pay.
  /// Returns the index of the best count.
  std::size_t search(const SampleGroup& group, std::size_t first, double enough, GroupSchedule& best) {
    std::size_t chosen = first;
    for (const bool up : {true, false}) {
      for (std::size_t i = first; best.seconds > enough && (up ? i + 1 < counts_.size() : i > 0);) {
        i += up ? 1 : std::size_t(-1);
        evaluate_(group, counts_[i], candidate_);
        if (candidate_.seconds < best.seconds) {
          std::swap(candidate_, best);
          chosen = i;
        } else if (best.seconds < std::numeric_limits<double>::infinity()) {
          break;
        }
      }
    }
    return chosen;
  }

  /// All groups take the same number of packs.
  Result equal(std::span<const SampleGroup> groups) {
    Result best, current;
    for (const std::size_t packs : counts_) {
      current.schedules.resize(groups.size());
      current.seconds = 0.0;
      for (std::size_t g = 0; g < groups.size() && current.seconds < best.seconds; ++g) {
        evaluate_(groups[g], packs, current.schedules[g]);
        current.seconds = std::max(current.seconds, current.schedules[g].seconds);
      }
      if (current.seconds < best.seconds) std::swap(current, best);
    }
    return best;
  }

  SlimPackOptions options_;
  std::size_t stages_;
  CandidateEvaluator<C, M> evaluate_;
  std::vector<std::size_t> counts_;
  std::size_t start_ = 0;
  GroupSchedule candidate_;
};

/// Seconds that each pipeline's schedule takes beyond its own work, less the least of them.
inline std::vector<double> pipeline_overheads(std::span<const SampleGroup> groups,
                                              std::span<const GroupSchedule> schedules) {
  std::vector<double> overhead;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::size_t stages = schedules[g].recompute.size();
    for (const PipelineTimes& times : schedules[g].times) {
      double work = 0.0;
      for (const double s : times.forward.seconds) work += s;
      for (const double s : times.backward.seconds) work += s;
      overhead.push_back(schedules[g].seconds * static_cast<double>(stages) - work);
    }
  }
  const double least = *std::min_element(overhead.begin(), overhead.end());
  for (double& o : overhead) o -= least;
  return overhead;
}

struct Found {
  double most_tokens = std::numeric_limits<double>::infinity();
  std::vector<SampleGroup> groups;
  SlimPackResult result;
};

/// Limits to what a member holds of one sample, as shares of the tokens that a stage holds without recomputation.
inline constexpr double token_limits[] = {0.55, 0.35};

[[nodiscard]] inline bool recomputes(const SlimPackResult& result) {
  return std::any_of(result.schedules.begin(), result.schedules.end(), [](const GroupSchedule& schedule) {
    return std::any_of(schedule.recompute.begin(), schedule.recompute.end(),
                       [](std::int32_t r) { return r > 0; });
  });
}

/// Merges as little as the capacity asks for. Where memory forces recomputation or a shorter lead on the pipelines of
/// the longest samples, tries first to spread long samples further, until their activations fit as they are.
template <CostModel C, MemoryModel M>
[[nodiscard]] Found search_distributions(Distributor<C, M>& distribute, SlimPackSearch<C, M>& search,
                                         const M& memory, const SlimPackOptions& options) {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  Found found;
  const auto consider = [&](double most_tokens, double incumbent) {
    Found other{.most_tokens = most_tokens, .groups = distribute(most_tokens), .result = {}};
    other.result = search(other.groups, std::min(incumbent, found.result.seconds));
    if (other.result.seconds < found.result.seconds) found = std::move(other);
  };
  double least_merged = 0.0;  // about what the step takes if as little as can be is merged
  if (options.merge) {
    const GroupSchedule& probe = search.probe(distribute().front());
    if (probe.memory_bound) least_merged = probe.seconds;
  }
  if (least_merged > 0.0) {
    const double room = memory.capacity_bytes() - memory.static_bytes(0);
    const double whole = room / (memory.activation_bytes(0, 0) + memory.kv_gradient_bytes(0));
    for (const double share : token_limits) {
      if (share * whole < static_cast<double>(distribute.longest()))
        consider(share * whole, 1.5 * least_merged);
      if (!found.groups.empty() && !recomputes(found.result)) break;
    }
  }
  if (found.groups.empty() ||
      least_merged < found.result.seconds * SlimPackSearch<C, M>::not_worth_a_search) {
    consider(unlimited, unlimited);
  }
  return found;
}

/// Feeds the simulated overhead of pipelines back to Phase 1. Returns whether that made the step shorter.
template <CostModel C, MemoryModel M>
bool rebalance(Distributor<C, M>& distribute, SlimPackSearch<C, M>& search, const SlimPackOptions& options,
               std::size_t pipelines, Found& found) {
  bool changed = false;
  if (found.groups.empty()) return changed;
  for (int round = 0; round < options.rebalance_rounds; ++round) {
    double mean = 0.0;
    for (const GroupSchedule& s : found.result.schedules) {
      mean += s.seconds * static_cast<double>(s.times.size()) / static_cast<double>(pipelines);
    }
    if (!(found.result.seconds > 1.02 * mean)) break;
    Found other{
        .most_tokens = found.most_tokens,
        .groups = distribute(found.most_tokens, pipeline_overheads(found.groups, found.result.schedules)),
        .result = {}};
    other.result = search(other.groups, found.result.seconds * 0.998);
    if (other.result.seconds >= found.result.seconds) break;
    found = std::move(other);
    changed = true;
  }
  return changed;
}

/// Says where the shortest step has less balance than could be had.
inline void note_imbalance(bool rebalanced, Plan& plan) {
  const PlanMetrics metrics = plan_metrics(plan);
  if (rebalanced) {
    plan.notes.push_back("replicas hold unequal work because that makes the step shorter");
  } else if (metrics.replica_imbalance > 1.005) {
    plan.notes.push_back(
        "replicas run unequal numbers of packs, whose constants differ; the step is not longer for it");
  }
  if (std::max(metrics.max_over_mean_forward, metrics.max_over_mean_backward) > 1.02) {
    plan.notes.push_back(
        "packs are unequal by more than 2 %: fewer, larger ones would be equal, but the step longer");
  }
}

}  // namespace detail

/// SlimPack (sections 4 and 5.1): samples over pipelines, outliers merged over several (Phase 1); forward and
/// backward MicroPacks of equal cost, each pass cut its own way, for every candidate number of packs (Phase 2);
/// PackFlow's order under the memory limit; the candidate with the shortest simulated step wins.
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
  detail::SlimPackSearch<C, M> search(lengths, job, cost, memory, options);

  search.start_near(distribute.total_seconds() / static_cast<double>(pipelines * cost.stages()),
                    cost.pack_seconds(0, Pass::forward) + cost.pack_seconds(0, Pass::backward));

  detail::Found found = detail::search_distributions(distribute, search, memory, options);
  const bool rebalanced = detail::rebalance(distribute, search, options, pipelines, found);
  std::vector<SampleGroup>& groups = found.groups;
  detail::SlimPackResult& best = found.result;
  require(best.seconds<std::numeric_limits<double>::infinity(),
                       "no number of packs that was tried fits into the memory of ",
                       memory.capacity_bytes() / 1e9, " GB per device, with all layers recomputed",
                       options.packs> 0
              ? ", or merged and local samples need more than the packs asked for"
              : "",
          "; expected shorter samples, more stages or more memory");
  double sync = 0.0;
  if constexpr (requires { cost.sync_seconds(); }) sync = cost.sync_seconds();
  Plan plan = assemble_plan("slimpack", lengths, job, groups, best.schedules, memory, sync);
  state_lower_bound(step_lower_bound(lengths, pipelines, cost).seconds(), plan);
  detail::note_imbalance(rebalanced, plan);
  return plan;
}

/// The same with the calibrated cost model and the transformer's memory model.
[[nodiscard]] inline Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job,
                                        const SlimPackOptions& options = {}) {
  return plan_slimpack(lengths, job, CalibratedCost(job), TransformerMemory(job), options);
}

}  // namespace slimpack
