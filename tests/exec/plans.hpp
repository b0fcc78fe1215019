#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "slimpack/plan/plan.hpp"
#include "tests/effort.hpp"

// Plans of all kinds that an executor meets. They are made in plans.cpp, so that planners are compiled once for all tests.
namespace slimpack::testing {

enum class PlanKind {
  slimpack,
  equal_packs,
  dp_merge,
  megatron,
  dynamic_cp,
  dynapipe,
  bytescale,
  by_hand,
  unequal,
  overlapping,
  chunks,
  elastic
};

/// Plans of equal pipelines.
inline constexpr PlanKind plan_kinds[] = {PlanKind::slimpack,  PlanKind::equal_packs, PlanKind::dp_merge,
                                          PlanKind::megatron,  PlanKind::dynamic_cp,  PlanKind::dynapipe,
                                          PlanKind::bytescale, PlanKind::by_hand};
/// Plans of any pipelines.
inline constexpr PlanKind all_plan_kinds[] = {
    PlanKind::slimpack,   PlanKind::equal_packs, PlanKind::dp_merge,  PlanKind::megatron,
    PlanKind::dynamic_cp, PlanKind::dynapipe,    PlanKind::bytescale, PlanKind::by_hand,
    PlanKind::unequal,    PlanKind::overlapping, PlanKind::chunks,    PlanKind::elastic};

[[nodiscard]] inline const char* name(PlanKind kind) {
  constexpr const char* names[] = {"slimpack",   "equal packs", "DP-Merge",  "megatron",
                                   "dynamic-cp", "dynapipe",    "bytescale", "by hand",
                                   "unequal",    "overlapping", "chunks",    "elastic"};
  return names[static_cast<std::size_t>(kind)];
}

/// Gives stages random orders that keep the rules, and the step its time.
void take_shuffled_orders(Plan& plan, unsigned seed);

/// Without a planner: stages run packs in orders of their own, some with weight tasks, merged, deferred.
[[nodiscard]] Plan plan_by_hand(unsigned seed);

/// Two or three kinds of pipelines of 1, 2 and 3 stages, one or two of each, whose layers are cut at random.
/// Pipelines of a kind run some samples together; packs recompute different numbers of layers.
[[nodiscard]] Plan unequal_plan(unsigned seed);

/// Samples that different groups of pipelines run, some of them the same and in another order, and further ones that
/// a pipeline runs alone.
[[nodiscard]] Plan overlapping_plan(unsigned seed);

/// By a user's planner (tests/planners/unequal_chunks.hpp): two or three kinds of pipelines of 1 to 3 stages; samples that are
/// cut into chunks are recomputed.
[[nodiscard]] Plan chunked_plan(unsigned seed);

/// Lets backward packs leave layers in the host's memory, other numbers of them on each stage.
void offload_layers(Plan& plan, unsigned seed);

struct ElasticOptions {
  unsigned seed = 1;
  Transformer model = {};
  std::int32_t stages = 1;
  std::vector<Tokens> lengths = {};
  Tokens chunk = 0;  ///< most tokens of a chunk
  bool mirrored =
      true;  ///< whether the backward pass has the chunks of the forward pass; otherwise it is cut by itself
};

/// Long samples cut into chunks of unlike sizes, their tails packed with short samples, further short samples batched
/// (InfiniPipe, section 3.1.1). Each backward pack recomputes a number of layers of its own on each stage.
[[nodiscard]] Plan elastic_plan(const ElasticOptions& options);

/// By hand or by a planner, for ranks that run whole stages. Memory is just above what weights need, so that recomputation and merging happen. Nothing if the
/// batch doesn't fit at all.
[[nodiscard]] std::optional<Plan> random_plan(PlanKind kind, unsigned seed);

/// Calls `f(plan)` for `all` plans of each kind, half where few are run, with kind and seed in the message of a failure.
template <class F>
void for_each_plan(unsigned all, F&& f) {
  const unsigned count = seeds(all, (all + 1) / 2, (all + 1) / 2);
  for (const PlanKind kind : all_plan_kinds) {
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
