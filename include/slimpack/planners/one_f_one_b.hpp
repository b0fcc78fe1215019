#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/cost/concepts.hpp"
#include "slimpack/planners/group.hpp"

namespace slimpack {

/// Layers that each stage recomputes when all recompute `recompute`, as far as they have them.
[[nodiscard]] inline std::vector<std::int32_t> uniform_recompute(std::span<const std::int32_t> layers,
                                                                 std::int32_t recompute) {
  std::vector<std::int32_t> again;
  for (const std::int32_t own : layers) again.push_back(std::min(own, recompute));
  return again;
}

/// Whether 1F1B fits into memory when all packs hold `tokens`: stage s holds those of the stages from itself to
/// the last, and runs one backward. O(stages).
/// @param layers of each stage. @param recompute as `uniform_recompute` takes it. @param packs of the pipeline.
template <MemoryModel M>
[[nodiscard]] bool full_pipeline_fits(const M& memory, std::span<const std::int32_t> layers,
                                      std::int32_t recompute, double tokens, std::size_t packs) {
  for (std::size_t s = 0; s < layers.size(); ++s) {
    const std::int32_t r = std::min(recompute, layers[s]);
    const double live = static_cast<double>(std::min(packs, layers.size() - s)) * tokens;
    const double workspace = memory.workspace_bytes(s, Pass::backward, static_cast<Tokens>(tokens + 1), r);
    const double bytes = memory.static_bytes(s) + live * memory.activation_bytes(s, r) +
                         tokens * memory.kv_gradient_bytes(s) + workspace;
    if (bytes > memory.capacity_bytes()) return false;
  }
  return true;
}

/// Most tokens, up to 2^40, of a pack such that a 1F1B pipeline full of them fits into memory; 0 if none do.
/// Parameters as of `full_pipeline_fits`. O(stages log tokens).
template <MemoryModel M>
[[nodiscard]] Tokens largest_full_pack(const M& memory, std::span<const std::int32_t> layers,
                                       std::int32_t recompute) {
  Tokens fits = 0, above = (Tokens{1} << 40) + 1;
  while (above - fits > 1) {
    const Tokens middle = fits + (above - fits) / 2;
    const bool ok = full_pipeline_fits(memory, layers, recompute, static_cast<double>(middle), layers.size());
    (ok ? fits : above) = middle;
  }
  return fits;
}

/// The schedule of one pipeline that runs the same packs of whole samples in both passes, in 1F1B order. Times
/// and recomputation are left to the caller, and so is its `seconds`. O(slices + packs * stages).
/// @param lengths of all samples. @param share ranks beside those of the layout among which each pack is divided.
[[nodiscard]] inline GroupSchedule order_one_f_one_b(const Packs& packs, std::span<const Tokens> lengths,
                                                     double share, std::size_t stages) {
  GroupSchedule one;
  one.forward = {packs};
  one.backward = {packs};
  one.times.members.resize(1);
  one.flow.resize(1);
  TokenFlow& flow = one.flow[0];
  flow.clear();
  detail::append_token_sums(packs, share, flow.forward);
  detail::append_token_sums(packs, share, flow.backward);
  detail::append_started_sums(packs, lengths, share, flow.started);
  std::vector<std::uint32_t> required(packs.size());
  std::iota(required.begin(), required.end(), std::uint32_t{1});
  packflow_leads(required, packs.size(), stages, one.times.members[0].leads);
  return one;
}

}  // namespace slimpack
