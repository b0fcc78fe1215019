#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "slimpack/core/ids.hpp"
#include "slimpack/schedule/chunk_scheduler.hpp"

namespace slimpack {

/// How samples become chunks.
enum class Chunking : std::uint8_t {
  balanced,  ///< of equal time (`balanced_chunks`), and the same without a limit of tokens
  even,      ///< of equal tokens (`even_chunks`)
  lone,      ///< each sample alone (`lone_chunks`)
};

struct ChunkPlanOptions {
  Chunking chunking = Chunking::balanced;
  /// Slices of the longest sample; 0: searched, from 1, which is a batch-level pipeline, to `most_slices`.
  std::size_t slices = 0;
  std::size_t most_slices = 64;
  Tokens tile = 1;            ///< slices end at multiples of it
  bool whole_samples = true;  ///< tries packs of whole samples above the longest one's length
  std::size_t kept =
      0;  ///< chunks of a sequence that are not recomputed, for ChunkRecompute::oldest; 0: searched
  ChunkScheduleOptions schedule = {};
};

}  // namespace slimpack
