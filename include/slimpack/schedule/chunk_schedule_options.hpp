#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/milp/covering_options.hpp"
#include "slimpack/schedule/schedule_options.hpp"

namespace slimpack {

/// Which layers chunks recompute in their backward pass.
enum class ChunkRecompute : std::uint8_t {
  adaptive,  ///< what each chunk needs on each stage, or what each stage needs for all chunks: whichever is faster
  per_stage,  ///< as few as each stage needs, the same for all chunks
  none,
  full,    ///< all layers
  oldest,  ///< all layers of a sequence's first chunks, none of its last ones (ChunkFlow)
};

/// How `ChunkScheduler` orders chunks and lets them recompute.
struct ChunkScheduleOptions {
  /// Of passes, at least one; the fastest is taken. Without cut samples, steady is PackFlow.
  std::vector<PassOrder> orders = {PassOrder::packflow, PassOrder::steady, PassOrder::gpipe};
  ChunkRecompute recompute = ChunkRecompute::adaptive;
  /// Layers may wait in the host's memory in place of being recomputed, where recomputation is adaptive or per stage, if that is
  /// faster.
  bool offload = false;
  /// Whether sequences of unlike lengths may run in pipelines one after another, if that recomputes less.
  bool groups = true;
  /// Chunks of a sequence that are not recomputed, for ChunkRecompute::oldest; 0: the best of 1, 2, 4, … and all. To keep none,
  /// use ChunkRecompute::full.
  std::size_t kept = 0;
  /// Of the checkpointing program: by default its relaxation, rounded well. More changes little (docs/infinipipe.md).
  CoveringOptions solver = {
      .solver = {.relative_gap = 0.05}, .node_limit = 0, .cut_rounds = 0, .block_nodes = 0};
};

}  // namespace slimpack
