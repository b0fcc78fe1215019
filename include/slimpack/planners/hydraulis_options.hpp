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
  DispatchOptions dispatch = {};
  PackPipelineOptions packing = {};
  /// Packs may recompute layers where memory is short. Hydraulis itself does not.
  bool recompute = true;
};

/// Which strategies are proposed.
struct StrategySpace {
  SchemeSpace schemes = {};
  ProposalOptions proposal = {};
  Tokens interval = 128;        ///< lengths are looked at in intervals of so many tokens, …
  std::int64_t intervals = 64;  ///< … or of as many as make so many intervals
};

struct HydraulisOptions {
  TwoStageOptions two_stage = {};
  /// Strategies of unequal pipelines that are planned: those first that can be fastest.
  std::size_t most_unequal = 24;
  /// Samples may be cut into slices, as `plan_slimpack` does, inside each kind of pipelines: more than Hydraulis offers.
  bool slices = false;
  SlimPackOptions slimpack = {};  ///< with `slices`
  /// The strategy of the step before; it stays unless another one is faster by more than `hysteresis` of its time.
  std::optional<Strategy> current = std::nullopt;
  double hysteresis = 0.0;
  std::size_t rounds = 4;  ///< with `slices`: in which samples are shared anew among the kinds
};

}  // namespace slimpack
