#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/schedule/chunk_schedule_options.hpp"

namespace slimpack {

/// How samples become chunks.
enum class Chunking : std::uint8_t {
  balanced,  ///< of equal time (`balanced_chunks`)
  even,      ///< of equal tokens (`even_chunks`)
  lone,      ///< each sample alone (`lone_chunks`)
};

struct ChunkPlanOptions {
  std::vector<Chunking> chunking = {Chunking::balanced};  ///< all are tried
  /// Slices of the longest sample; 0: searched, from 1, which is a batch-level pipeline, to `most_slices`.
  std::size_t slices = 0;
  std::size_t most_slices = 64;
  Tokens tile = 1;  ///< slices end at multiples of it
  /// Balanced chunks: also divides time equally over as many chunks as it needs (`ChunkChoice::shortest`), with and
  /// without a limit of tokens, which the paper's algorithm does not.
  bool level = true;
  /// Up to so many samples of a pipeline, the paper's algorithm is tried as well; above, it takes too long.
  std::size_t most_samples_lightest = 20000;
  bool whole_samples = true;  ///< tries packs of whole samples above the longest one's length
  ChunkScheduleOptions schedule = {};
};

/// InfiniPipe (elastic pipeline parallelism): chunks of equal time, short samples packed, long ones cut; the number of
/// slices, the groups of sequences and what each chunk recomputes chosen together by simulated time. Everything it
/// leaves out is a candidate as well: chunks of equal tokens, packs of whole samples, one group, the same recomputation
/// for all chunks.
[[nodiscard]] inline ChunkPlanOptions infinipipe_options() {
  return {.chunking = {Chunking::balanced, Chunking::even}};
}

/// Seq1F1B: chunks in 1F1B order, each stage recomputing as few layers as fit, the same for all chunks. Tries its
/// uniform chunks, each sample alone, and those of equal tokens with which InfiniPipe compares (section 5.1), with the
/// best number of slices.
[[nodiscard]] inline ChunkPlanOptions seq1f1b_options() {
  ChunkPlanOptions options;
  options.chunking = {Chunking::even, Chunking::lone};
  options.whole_samples = false;
  options.schedule.orders = {PassOrder::packflow, PassOrder::steady};
  options.schedule.recompute = ChunkRecompute::per_stage;
  return options;
}

/// TeraPipe: chunks of equal time, all forward passes before the backward passes.
[[nodiscard]] inline ChunkPlanOptions terapipe_options() {
  ChunkPlanOptions options;
  options.whole_samples = false;
  options.schedule.orders = {PassOrder::gpipe};
  options.schedule.recompute = ChunkRecompute::per_stage;
  return options;
}

/// ChunkFlow: chunks of one size in 1F1B order; the last chunks of a sample are kept, the others run forward twice.
/// Chunk size and number of kept chunks are searched. Unlike there, the inputs of layers that run twice are kept.
[[nodiscard]] inline ChunkPlanOptions chunkflow_options() {
  ChunkPlanOptions options;
  options.chunking = {Chunking::even};
  options.whole_samples = false;
  options.schedule.orders = {PassOrder::packflow, PassOrder::steady};
  options.schedule.recompute = ChunkRecompute::oldest;
  return options;
}

}  // namespace slimpack
