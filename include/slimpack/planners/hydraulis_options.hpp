#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "slimpack/model/strategy.hpp"
#include "slimpack/partition/dispatch_search.hpp"
#include "slimpack/partition/pack_pipeline.hpp"
#include "slimpack/planners/slimpack_options.hpp"

namespace slimpack {

/// How a batch is assigned to the pipelines of one strategy.
struct TwoStageOptions {
  /// Few steps: what Eq. 3 gains in more is less than what refinements gain in the simulation.
  DispatchOptions dispatch = {
      .greedy = {.trials = 100}, .max_steps = 1000, .max_steps_per_sample = 40, .always_greedy = false};
  /// Greedy packs, improved by a local search, in the order of the simulation: more even ones by Eq. 1 are no faster,
  /// because light packs fill and drain a pipeline sooner.
  PackPipelineOptions packing = {.max_exchange_steps = 0, .max_exact_steps = 0, .most_counts = 2};
  /// Packs may recompute layers where memory is short. Hydraulis itself does not.
  bool recompute = true;
  /// Of the slowest pipeline: subsets and nodes that are looked at for one number of packs, and numbers of packs.
  std::uint64_t careful_steps = 2000;
  std::size_t careful_counts = 1;
  std::size_t most_careful = 2;  ///< pipelines that are packed so, one after another
  std::size_t refinements = 24;  ///< exchanges of samples with the slowest pipeline, whichever that is
  /// What is slower than the best plan so far by more than this share is not refined.
  double close = 0.05;
};

struct HydraulisOptions {
  TwoStageOptions two_stage = {};
  /// Strategies that are planned, with recomputation and without: those first that should be fastest, until no estimate
  /// is better than the best plan.
  std::size_t most_planned = 12;
  /// Batches of at most so many samples are planned in full: no plan is given up early, so that no strategy that is
  /// planned would alone take less, and what `plan_megatron` does on equal pipelines is also tried. In larger ones,
  /// that takes longer than it is worth.
  std::size_t most_in_full = 512;
  /// In larger batches, half as many strategies are planned, until plans that take more than their estimate by this
  /// share would be no better.
  double beyond = 0.03;
  /// Samples may be cut into slices, as `plan_slimpack` does, inside each kind of pipelines: more than Hydraulis offers.
  bool slices = false;
  std::size_t most_unequal =
      24;  ///< with `slices`: strategies of unequal pipelines that are planned, those with the least bounds
  SlimPackOptions slimpack = {};  ///< with `slices`
  /// The strategy of the step before, one of the candidates or not; it stays unless another one is faster by more than
  /// `hysteresis` of its time.
  std::optional<Strategy> current = std::nullopt;
  double hysteresis = 0.0;
  std::size_t rounds = 4;  ///< with `slices`: how often samples are shared out among the kinds
};

}  // namespace slimpack
