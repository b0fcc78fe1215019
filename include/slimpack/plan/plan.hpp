#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/flops.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/core/ragged.hpp"
#include "slimpack/model/device.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/model/transformer.hpp"
#include "slimpack/schedule/task.hpp"
#include "slimpack/sharding/kind.hpp"

namespace slimpack {

/// The packs of one pass over the whole batch. All lists have one entry (or row) per pack, unless they say otherwise.
struct PassPlan {
  Packs packs;
  Ragged<PipelineId> pipelines;  ///< the pipelines that run the pack; several = DP-Merge, in lockstep
  std::vector<Flops> flops;      ///< whole pack, per transformer layer
  /// Per stage; for a merged pack, on each member. Where a backward pack has `weight_seconds`, the rest of its time.
  Ragged<double> seconds;
  /// From the pack's end on one stage until the next one may start it: entry s is between stages s and s + 1, in
  /// either direction, so a row has one entry less than the pack has stages.
  Ragged<double> transfer_seconds;
  std::vector<Sharding> sharding;
  /// Tokens of a chunk of the packs that are sharded `by_position`; 0 where it is not stated.
  Tokens block = 0;
  /// How keys and values meet queries in packs that several ranks share. Empty where no pack says.
  std::vector<KeyExchange> exchange;
  /// Places of the slices that mixed packs shard by themselves, ascending. No rows where no pack is mixed.
  Ragged<std::uint32_t> per_document;
  Ragged<std::int32_t> recompute_layers;  ///< per stage; backward only, no rows in the forward pass
  /// Layers whose activations wait in the host's memory, per stage; backward only. No rows where no pack offloads;
  /// an empty row: none of this pack.
  Ragged<std::int32_t> offload_layers;
  /// Durations of the pack's weight-gradient tasks, per stage; backward only. No rows where no pack says; an empty
  /// row: those of this pack take no time.
  Ragged<double> weight_seconds;

  /// How the pack's keys and values meet its queries; `KeyExchange::none` where it is not stated. @pre k < packs.size()
  [[nodiscard]] KeyExchange exchange_of(std::size_t k) const {
    return exchange.empty() ? KeyExchange::none : exchange[k];
  }

  /// Layers of a stage that a backward pack leaves in the host's memory; 0 where it is not stated. @pre k < packs.size()
  [[nodiscard]] std::int32_t offload_of(std::size_t k, std::size_t stage) const {
    return offload_layers.empty() || offload_layers[k].empty() ? 0 : offload_layers[k][stage];
  }
};

/// One data-parallel replica: `pp` stages of `tp * cp` devices each.
struct PipelinePlan {
  PipelineId id = 0;
  std::int32_t tp = 1;
  std::int32_t cp = 1;
  std::vector<std::int32_t> layers;      ///< held by each stage; its size is pp
  std::vector<std::vector<Task>> order;  ///< tasks of each stage in the order in which it runs them
  /// `[stage][context rank * tp + tensor rank]`; empty where they are not stated.
  std::vector<std::vector<DeviceId>> devices = {};
  /// Phases run one after another on the same devices: none begins before all tasks of the one before it have ended, and
  /// `StepPlan::switch_seconds` later.
  std::int32_t phase = 0;

  [[nodiscard]] std::size_t stages() const { return layers.size(); }
};

/// What the iteration costs, by the simulator.
struct StepPlan {
  double seconds = 0.0;           ///< pipeline_seconds + sync_seconds
  double sync_seconds = 0.0;      ///< gradient synchronisation and optimiser
  double pipeline_seconds = 0.0;  ///< longest path through all tasks
  double bubble_ratio = 0.0;      ///< idle share of stage time in its phase, over all stages
  double lower_bound_seconds = 0.0;
  std::vector<std::vector<double>> peak_bytes;  ///< [pipeline][stage]
  /// Between each phase and the next, in which parameters and gradients move; a part of `pipeline_seconds`.
  std::vector<double> switch_seconds = {};

  [[nodiscard]] double gap() const { return seconds > 0.0 ? 1.0 - lower_bound_seconds / seconds : 0.0; }
};

/// A training iteration: which tokens run where, in which pack, in which order, forward and backward.
/// A value: it can be validated, timed, drawn, written and read without the planner that made it.
struct Plan {
  std::string planner;
  Transformer model;
  Device device;
  std::vector<Tokens> tokens;      ///< length of every sample; a sample's id is its index here
  std::vector<SampleId> deferred;  ///< held back for a later iteration
  /// Of every sample, the id that the document has in the training data; empty where nobody gave ids.
  std::vector<std::uint64_t> document_ids;
  std::vector<PipelinePlan> pipelines;
  PassPlan forward;
  PassPlan backward;
  StepPlan step;
  std::vector<std::string> notes;  ///< what the planner wants its user to know, one sentence each

  /// Phases of the step: one more than there are switches.
  [[nodiscard]] std::size_t phases() const { return step.switch_seconds.size() + 1; }
  [[nodiscard]] const PassPlan& of(Pass pass) const { return pass == Pass::forward ? forward : backward; }
};

}  // namespace slimpack
