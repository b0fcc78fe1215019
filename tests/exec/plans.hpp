#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <optional>
#include <random>
#include <vector>

#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/plan/event_loop.hpp"
#include "tests/plan/sample_plan.hpp"
#include "tests/planners/oracle.hpp"
#include "tests/sanitized.hpp"

// Plans of all kinds that an executor meets.
namespace slimpack::testing {

enum class PlanKind { slimpack, equal_packs, dp_merge, megatron, by_hand };

inline constexpr PlanKind plan_kinds[] = {PlanKind::slimpack, PlanKind::equal_packs, PlanKind::dp_merge,
                                          PlanKind::megatron, PlanKind::by_hand};

[[nodiscard]] inline const char* name(PlanKind kind) {
  constexpr const char* names[] = {"slimpack", "equal packs", "DP-Merge", "megatron", "by hand"};
  return names[static_cast<std::size_t>(kind)];
}

/// Without a planner: stages run packs in orders of their own, some with weight tasks, merged, deferred.
[[nodiscard]] inline Plan plan_by_hand(unsigned seed) {
  SamplePlanOptions options;
  options.seed = seed;
  options.samples = 1 + seed % 9;
  options.deferred = seed % 3;
  options.pipelines = 1 + seed % 3;
  options.stages = 1 + seed % 8;
  options.merged = seed % 2 == 0 ? 3 : 0;
  options.split_weights = seed % 3 == 0;
  options.max_tokens = 40;
  Plan plan = sample_plan(options);
  if (seed % 4 != 0) {
    shuffle_orders(plan, seed);
    const double seconds = time_plan(plan).seconds;
    plan.step.pipeline_seconds = seconds;
    plan.step.seconds = seconds + plan.step.sync_seconds;
  }
  return plan;
}

/// Memory just above what weights need, so that recomputation and merging happen. Nothing if the batch doesn't
/// fit at all.
[[nodiscard]] inline std::optional<Plan> planned(PlanKind kind, unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  const bool merge = kind == PlanKind::dp_merge;
  const int dp = pick(merge ? 2 : 1, 4);
  const auto lengths =
      oracle::random_lengths(random, static_cast<std::size_t>(dp + pick(0, 30)), merge ? 2 : pick(0, 3), 600);
  Job job = oracle::random_job(random, dp, 1e9);
  job.layout.pp = pick(1, 8);
  job.model.layers = job.layout.pp * pick(1, 3);
  const MemoryOptions options{.reserve_bytes = 0.0};
  const TransformerMemory roomy(job, options);
  double fixed = 0.0;
  for (std::size_t s = 0; s < static_cast<std::size_t>(job.layout.pp); ++s) {
    fixed = std::max(fixed, roomy.static_bytes(s));
  }
  job.device.memory_bytes = fixed + 12e6 * std::exp(0.6 * pick(0, 4));
  const TransformerMemory memory(job, options);
  try {
    if (kind == PlanKind::megatron) return plan_megatron(lengths, job, CalibratedCost(job), memory);
    const SlimPackOptions chosen{.tile = pick(0, 1) == 0 ? 1 : 16,
                                 .asymmetric = pick(0, 3) != 0,
                                 .merge = merge,
                                 .equal_packs = kind == PlanKind::equal_packs,
                                 .most_packs_per_stage = 8};
    return plan_slimpack(lengths, job, CalibratedCost(job), memory, chosen);
  } catch (const InvalidInput&) {
    return std::nullopt;
  }
}

[[nodiscard]] inline std::optional<Plan> random_plan(PlanKind kind, unsigned seed) {
  return kind == PlanKind::by_hand ? plan_by_hand(seed) : planned(kind, seed);
}

/// Calls `f(plan)` for `all` plans of each kind, half under a sanitizer, with kind and seed in the message of a failure.
template <class F>
void for_each_plan(unsigned all, F&& f) {
  const unsigned count = seeds(all, (all + 1) / 2, (all + 1) / 2);
  for (const PlanKind kind : plan_kinds) {
    unsigned made = 0;
    for (unsigned seed = 1; made < count; ++seed) {
      REQUIRE(seed < 10 * count);
      const auto plan = random_plan(kind, seed);
      if (!plan) continue;
      INFO(name(kind) << " plan of seed " << seed);
      f(*plan);
      ++made;
    }
  }
}

}  // namespace slimpack::testing
