#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/cost/memory_prices.hpp"

namespace slimpack {

/// Most layers that any stage may recompute. O(stages).
[[nodiscard]] inline std::int32_t most_recompute_layers(const Memory& memory) {
  std::int32_t most = 0;
  for (std::size_t s = 0; s < memory.stages(); ++s) most = std::max(most, memory.recompute_limit(s));
  return most;
}

/// Bytes that a 1F1B pipeline full of packs of so many tokens lacks on the device that lacks most; 0 or less if they
/// fit. Each stage holds one pack for itself and for each stage after it, and runs one of them backward. O(stages).
/// @param recompute layers that each stage recomputes, as far as it has them.
[[nodiscard]] inline double full_pack_shortage(const Memory& memory, Tokens tokens, std::int32_t recompute) {
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t s = 0; s < memory.stages(); ++s) {
    const std::int32_t r = std::min(recompute, memory.recompute_limit(s));
    const auto n = static_cast<double>(tokens), packs = static_cast<double>(memory.stages() - s);
    const double bytes = packs * n * memory.activation_bytes(s, r) + n * memory.kv_gradient_bytes(s) +
                         memory.workspace_bytes(s, Pass::backward, tokens, tokens, 1, r);
    most = std::max(most, bytes - memory.room_bytes(s));
  }
  return most;
}

/// Most tokens, up to 2^40, of a pack such that a 1F1B pipeline full of such packs fits into memory; 0 if none does.
/// @param recompute as for `full_pack_shortage`. O(stages log tokens).
[[nodiscard]] inline Tokens largest_full_pack(const Memory& memory, std::int32_t recompute) {
  Tokens most = 0, above = (Tokens{1} << 40) + 1;
  while (above - most > 1) {
    const Tokens middle = most + (above - most) / 2;
    (full_pack_shortage(memory, middle, recompute) <= 0.0 ? most : above) = middle;
  }
  return most;
}

/// The same for each number of recomputed layers, from none to all that a stage has: MaxLen(P) of Hydraulis, which
/// recomputes nothing, is the first. Never falling. O(layers stages log tokens).
[[nodiscard]] inline std::vector<Tokens> largest_full_packs(const Memory& memory) {
  const std::int32_t all = most_recompute_layers(memory);
  std::vector<Tokens> most;
  for (std::int32_t layers = 0; layers <= all; ++layers)
    most.push_back(std::max(most.empty() ? 0 : most.back(), largest_full_pack(memory, layers)));
  return most;
}

namespace detail {

/// Most tokens of one sample that a pipeline holds. @param recompute whether all layers are recomputed, or none. O(stages).
[[nodiscard]] inline double most_sample_tokens(const Memory& memory, bool recompute) {
  double most = std::numeric_limits<double>::infinity();
  for (std::size_t s = 0; s < memory.stages(); ++s) {
    const std::int32_t layers = recompute ? memory.recompute_limit(s) : 0;
    const double per_token = memory.activation_bytes(s, layers) + memory.kv_gradient_bytes(s);
    if (per_token > 0.0) most = std::min(most, memory.room_bytes(s) / per_token);
  }
  return most;
}

/// Fewest layers of a stage that are recomputed if it holds so many tokens of one sample; one more than it may recompute if all
/// do not suffice. O(layers).
[[nodiscard]] inline std::int32_t layers_to_hold(const Memory& memory, std::size_t stage, double tokens) {
  const double room = memory.room_bytes(stage) / tokens - memory.kv_gradient_bytes(stage);
  std::int32_t layers = 0;
  while (layers <= memory.recompute_limit(stage) && memory.activation_bytes(stage, layers) > room) ++layers;
  return layers;
}

/// What a full pipeline lacks to hold a sample, for messages: the bytes, and that a pack may be recomputed as far as it will go.
[[nodiscard]] inline std::string lacks_text(const Memory& memory, Tokens longest, bool recompute) {
  const std::int32_t layers = recompute ? std::numeric_limits<std::int32_t>::max() : 0;
  const double gigabytes = full_pack_shortage(memory, longest, layers) / 1e9;
  return concat("lacks ", std::max(0.01, std::ceil(100.0 * gigabytes) / 100.0), " GB on a device for it",
                recompute ? ", with all layers recomputed" : "");
}

}  // namespace detail

}  // namespace slimpack
