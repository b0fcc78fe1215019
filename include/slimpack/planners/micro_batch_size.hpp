#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "slimpack/core/error.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/schedule/full_pack.hpp"
#include "slimpack/stream/outlier_queues.hpp"

namespace slimpack {

/// Number of micro-batches for global batches of about `tokens` tokens: the contexts that these fill, rounded up to a
/// multiple of the replicas, and at least the stages times the replicas (WLB-LLM, section 6.1).
[[nodiscard]] inline std::size_t default_micro_batches(double tokens, Tokens context, const Layout& layout) {
  require(context > 0, "context is ", context, "; expected a positive number of tokens");
  const auto replicas = static_cast<std::size_t>(layout.dp);
  const auto sequences = static_cast<std::size_t>(std::ceil(tokens / static_cast<double>(context)));
  return std::max((sequences + replicas - 1) / replicas, static_cast<std::size_t>(layout.pp)) * replicas;
}

/// L_max of WLB-LLM's Eq. 2: most tokens of a micro-batch such that a pipeline full of them fits into memory,
/// with the least uniform recomputation with which `headroom` contexts fit; if none does, with all layers. At most
/// `most_micro_batch_tokens`, however much memory there is.
/// @throws InvalidInput if memory holds no token at all. O(layers * stages * log tokens).
[[nodiscard]] inline Tokens largest_micro_batch(const Memory& memory, Tokens context, double headroom = 2.0) {
  const std::int32_t most = most_recompute_layers(memory);
  Tokens tokens = 0;
  for (std::int32_t r = 0; r <= most; ++r) {
    tokens = std::max(tokens, largest_full_pack(memory, r));
    if (static_cast<double>(tokens) >= headroom * static_cast<double>(context)) break;
  }
  require(tokens > 0, "no micro-batch fits into ", memory.capacity_text(),
          " with all layers recomputed; expected more stages or more memory");
  return std::min(tokens, most_micro_batch_tokens);
}

}  // namespace slimpack
