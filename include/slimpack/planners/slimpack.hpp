#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/planners/assemble.hpp"
#include "slimpack/planners/candidates.hpp"
#include "slimpack/planners/distribute.hpp"
#include "slimpack/schedule/lower_bound.hpp"

namespace slimpack {

struct SlimPackOptions {
  Tokens tile = 128;          ///< slice boundaries are multiples of this, except at the end of a sample
  bool asymmetric = true;     ///< own boundaries for the backward pass; false for comparison only
  bool merge = true;          ///< DP-Merge for samples above a pipeline's capacity
  GroupSizes group_sizes = GroupSizes::any;
  bool equal_packs = false;   ///< the same number of packs on every pipeline
  std::size_t packs = 0;      ///< packs per pipeline and pass; 0 = search
  std::size_t most_packs_per_stage = 64;  ///< largest candidate: this many times the stages
  double most_tokens = std::numeric_limits<double>::infinity();
  int rebalance_rounds = 1;   ///< times that the simulated overhead of pipelines is fed back to Phase 1
};

namespace detail {

/// The search for the shortest step over a distribution's candidates.
template <CostModel C, MemoryModel M>
class SlimPackSearch {
 public:
  SlimPackSearch(std::span<const Tokens> lengths, const Job& job, const C& cost, const M& memory,
                 const SlimPackOptions& options)
      : options_(options),
        evaluate_(lengths, cost, memory, split_layers(job.model.layers, job.layout.pp), {.tile = options.tile},
                  options.asymmetric) {
    if (options.packs > 0) {
      counts_ = {options.packs};
    } else {
      counts_ = pack_counts(cost.stages(), options.most_packs_per_stage * cost.stages());
    }
  }

  struct Result {
    double seconds = std::numeric_limits<double>::infinity();
    std::vector<GroupSchedule> schedules;
  };

  Result operator()(std::span<const SampleGroup> groups) {
    return options_.equal_packs ? equal(groups) : each(groups);
  }

 private:
  /// Every group takes its own best number of packs. Groups that are faster than the slowest one's best need no
  /// search of their own.
  Result each(std::span<const SampleGroup> groups) {
    Result result;
    result.schedules.resize(groups.size());
    result.seconds = 0.0;
    std::size_t first = counts_.size() / 2;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      GroupSchedule& best = result.schedules[g];
      evaluate_(groups[g], counts_[first], best);
      if (best.seconds > result.seconds || g == 0) first = search(groups[g], first, result.seconds, best);
      result.seconds = std::max(result.seconds, best.seconds);
    }
    return result;
  }

  /// Improves `best`, found at `counts_[first]`, until it is not above `enough` or both directions stop to pay.
  /// Returns the index of the best count.
  std::size_t search(const SampleGroup& group, std::size_t first, double enough, GroupSchedule& best) {
    std::size_t chosen = first;
    for (const bool up : {true, false}) {
      int misses = 0;
      for (std::size_t i = first; misses < 2 && best.seconds > enough && (up ? i + 1 < counts_.size() : i > 0);) {
        i += up ? 1 : std::size_t(-1);
        evaluate_(group, counts_[i], candidate_);
        ++misses;
        if (candidate_.seconds < best.seconds) {
          std::swap(candidate_, best);
          chosen = i;
          misses = 0;
        } else if (best.seconds == std::numeric_limits<double>::infinity()) {
          misses = 0;
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
  CandidateEvaluator<C, M> evaluate_;
  std::vector<std::size_t> counts_;
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

}  // namespace detail

/// SlimPack (sections 4 and 5.1): samples over pipelines, outliers merged over several (Phase 1); forward and
/// backward MicroPacks of equal cost, each pass cut its own way, for every candidate number of packs (Phase 2);
/// PackFlow's order under the memory limit; the candidate with the shortest simulated step wins.
/// @param lengths tokens of every sample.
/// @param cost, memory models of the job's stages; any types that satisfy the concepts.
/// @throws InvalidInput if the batch or the job is impossible, or nothing fits into memory.
/// Complexity: O(candidates * (samples + packs * stages)) and O(n log n) to sort.
template <CostModel C, MemoryModel M>
[[nodiscard]] Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, const C& cost, const M& memory,
                                 const SlimPackOptions& options = {}) {
  validate(job);
  validate_batch(lengths, job.layout.dp);
  const auto pipelines = static_cast<std::size_t>(job.layout.dp);
  Distributor<C, M> distribute(lengths, cost, memory, split_layers(job.model.layers, job.layout.pp), pipelines,
                               {.merge = options.merge, .group_sizes = options.group_sizes, .most_tokens=options.most_tokens});
  detail::SlimPackSearch<C, M> search(lengths, job, cost, memory, options);

  std::vector<SampleGroup> groups = distribute();
  auto best = search(groups);
  bool rebalanced = false;
  for (int round = 0; round < options.rebalance_rounds && best.seconds < std::numeric_limits<double>::infinity();
       ++round) {
    auto other_groups = distribute(detail::pipeline_overheads(groups, best.schedules));
    auto other = search(other_groups);
    if (other.seconds >= best.seconds * 0.998) break;
    std::swap(groups, other_groups);
    std::swap(best, other);
    rebalanced = true;
  }
  require(best.seconds < std::numeric_limits<double>::infinity(), "no candidate fits into ", memory.capacity_bytes() / 1e9,
          " GB per device, with all layers recomputed; expected shorter samples, more stages or more memory");
  double sync = 0.0;
  if constexpr (requires { cost.sync_seconds(); }) sync = cost.sync_seconds();
  Plan plan = assemble_plan("slimpack", lengths, job, groups, best.schedules, memory, sync);
  plan.step.lower_bound_seconds = sync + step_lower_bound(lengths, pipelines, cost).seconds();
  if (rebalanced) plan.notes.push_back("replicas hold unequal work because that makes the step shorter");
  return plan;
}

/// The same with the calibrated cost model and the transformer's memory model.
[[nodiscard]] inline Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job,
                                        const SlimPackOptions& options = {}) {
  return plan_slimpack(lengths, job, CalibratedCost(job), TransformerMemory(job), options);
}

}  // namespace slimpack
