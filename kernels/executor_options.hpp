#pragma once

#include <vector>

#include "kernels/math/adamw.hpp"
#include "kernels/model/stage_options.hpp"
#include "kernels/model/weights.hpp"
#include "kernels/task_record.hpp"
#include "kernels/transport/transport.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/exec/loop.hpp"
#include "slimpack/sharding/by_position.hpp"

namespace slimpack::kernels {

struct ExecutorOptions {
  StageOptions stage = {};
  InitOptions init = {};
  AdamWOptions adamw = {};
  /// Each replica keeps the optimiser's moments of its share of the weights, and updates those (ZeRO-1).
  bool shard_optimiser = true;
  Tokens block = default_ownership_block;  ///< tokens of a chunk of a merged sample
  LoopOptions loop = {};
  TransportOptions waits = {};  ///< with links between devices: how long a rank waits for its own one
};

/// What a step was like on one rank.
struct StepReport {
  double loss = 0.0;              ///< of the whole batch, per label; the same on all ranks
  double pipeline_seconds = 0.0;  ///< until the last rank has done its tasks; the same on all ranks
  double seconds = 0.0;           ///< with the exchange of gradients and the update; of this rank
  double peak_bytes = 0.0;        ///< most that the stage has used
  double predicted_bytes = 0.0;   ///< what the memory model says of it
  double host_peak_bytes = 0.0;   ///< most that its offloaded layers have taken of the host's memory
  /// In addition to these, what rows from and to other ranks take: of the device with links, else of the host.
  double link_bytes = 0.0;
  std::size_t graph_tasks = 0;  ///< that a GPU was given as graphs, since the step repeats the one before
  std::vector<TaskRecord> tasks;
};

}  // namespace slimpack::kernels
