#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "slimpack/model/strategy.hpp"
#include "slimpack/partition/dispatch_search.hpp"
#include "slimpack/partition/pack_pipeline.hpp"
#include "slimpack/planners/slimpack_options.hpp"
#include "slimpack/strategy/proposal.hpp"
#include "slimpack/strategy/schemes.hpp"

namespace slimpack {

/// How a batch is assigned to the pipelines of one strategy.
struct TwoStageOptions {
  /// Few steps: what Eq. 3 gains in more is less than what refinements gain in the simulation.
  DispatchOptions dispatch = {.greedy = {.trials = 1}, .max_steps = 1000, .max_steps_per_sample = 10};
  /// Greedy packs, improved by a local search, in the order of the simulation: more even ones by Eq. 1 are no faster, because light
  /// packs fill and drain a pipeline sooner.
  PackPipelineOptions packing = {.max_exchange_steps = 0, .max_exact_steps = 0, .most_counts = 2};
  /// Packs may recompute layers where memory is short. Hydraulis itself does not.
  bool recompute = true;
  /// Whether more even packs are tried for the slowest pipeline also where memory is ample: they rarely are faster there.
  bool careful = false;
  /// Of the slowest pipeline: subsets and nodes that are looked at for one number of packs, and numbers of packs.
  std::uint64_t careful_steps = 2000;
  std::size_t careful_counts = 1;
  std::size_t most_careful = 2;  ///< pipelines that are packed so, one after another
  std::size_t refinements = 24;  ///< exchanges of samples with the slowest pipeline, whichever that is
  /// What is slower than the best plan so far by more than this share is not refined.
  double close = 0.04;
};

/// More work, for the strategy that won.
[[nodiscard]] inline TwoStageOptions careful_two_stage(TwoStageOptions options = {}) {
  options.careful = true;
  options.dispatch.greedy.trials = 10;
  options.dispatch.max_steps_per_sample *= 4;
  return options;
}

/// Which strategies are proposed.
struct StrategySpace {
  SchemeSpace schemes = {};
  ProposalOptions proposal = {};
  Tokens interval = 128;        ///< lengths are looked at in intervals of so many tokens, …
  std::int64_t intervals = 64;  ///< … or of as many as make so many intervals
};

struct HydraulisOptions {
  TwoStageOptions two_stage = {};
  /// Strategies that are planned: those first that should be fastest, …
  std::size_t most_planned = 12;
  /// … until plans that take more than their estimate by this share would be no better: they always take about so much more.
  double beyond = 0.01;
  /// In batches of at most so many samples, what `plan_megatron` does on equal pipelines is tried too; in larger ones, dispatch and
  /// packing of this planner are faster.
  std::size_t most_in_turn = 512;
  /// Samples may be cut into slices, as `plan_slimpack` does, inside each kind of pipelines: more than Hydraulis offers.
  bool slices = false;
  std::size_t most_unequal =
      24;  ///< with `slices`: strategies of unequal pipelines that are planned, those with the least bounds
  SlimPackOptions slimpack = {};  ///< with `slices`
  /// The strategy of the step before; it stays unless another one is faster by more than `hysteresis` of its time.
  std::optional<Strategy> current = std::nullopt;
  double hysteresis = 0.0;
  std::size_t rounds = 4;  ///< with `slices`: how often samples are shared out among the kinds
};

}  // namespace slimpack
