#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "slimpack/cost/flops.hpp"
#include "slimpack/model/parallel.hpp"

namespace slimpack {

inline constexpr double bytes_per_bf16 = 2.0;

/// How context-parallel ranks exchange what attention needs.
enum class ContextExchange : std::uint8_t {
  ring,      ///< keys and values travel round the ring, hidden behind attention as far as it lasts
  ulysses,   ///< all-to-all from sequence shards to head shards and back
  cheapest,  ///< whichever of these two takes less time for the slice
  all_gather,  ///< keys and values of all ranks are gathered first, and nothing is hidden (WLB-LLM, section 2.1)
};

/// Link that `ranks` neighbouring devices share: within a node as long as they fit into one.
[[nodiscard]] inline const Link& group_link(const Device& device, std::int64_t ranks) {
  return ranks <= device.devices_per_node ? device.intra_node : device.inter_node;
}

/// Ulysses needs whole heads on every rank: `tp * cp` has to divide the query heads, and the key/value heads
/// or be divided by them (heads are then replicated).
[[nodiscard]] constexpr bool ulysses_possible(const Transformer& m, std::int32_t tp, std::int32_t cp) {
  const std::int32_t ranks = tp * cp;
  return m.heads % ranks == 0 && (m.kv_heads % ranks == 0 || ranks % m.kv_heads == 0);
}

/// Bytes of keys and values of one token and layer on one of `tp` tensor-parallel ranks.
[[nodiscard]] constexpr double kv_bytes_per_token(const Transformer& m, std::int32_t tp) {
  return bytes_per_bf16 * 2.0 * m.kv_heads * m.head_dim / std::min(tp, m.kv_heads);
}

/// Bytes of one token that one layer saves for its backward pass, over all ranks: the inputs of both norms
/// and of the projections after them, Q, K, V, attention's output and its row statistics, gate, up and their
/// product.
[[nodiscard]] constexpr double saved_layer_bytes_per_token(const Transformer& m) {
  const double elements = 4.0 * m.hidden + 2.0 * m.head_dim * (m.heads + m.kv_heads) + 3.0 * m.ffn;
  return bytes_per_bf16 * elements + 4.0 * m.heads;
}

/// Seconds per token and layer of tensor and sequence parallelism: all-gathers and reduce-scatters of the
/// hidden states, two each forward; the backward pass gathers the inputs of its weight gradients again.
[[nodiscard]] inline double tensor_parallel_seconds(const Job& job, Pass pass) {
  const double tp = job.layout.tp;
  if (tp == 1) return 0.0;
  const double exchanges = pass == Pass::forward ? 4.0 : 6.0;
  const double bytes = exchanges * bytes_per_bf16 * job.model.hidden * (tp - 1) / tp / job.layout.cp;
  return bytes / group_link(job.device, job.layout.tp).bandwidth;
}

/// What one layer's context parallelism costs, as rates per token on each rank.
struct ContextParallelRates {
  double ring_per_key = 0.0;       ///< seconds per token of the prefix and the slice, before hiding
  double ulysses_per_query = 0.0;  ///< seconds per token of the slice
  double gather_per_key = 0.0;     ///< seconds per token of the prefix and the slice, none hidden

  /// Seconds added to a slice `[begin, end)` whose attention takes `attention_seconds` on each rank: what the
  /// ring can't hide behind attention, the all-to-all, or the all-gather, whichever is allowed and least.
  [[nodiscard]] double seconds(Tokens begin, Tokens end, double attention_seconds) const {
    const double ring = std::max(0.0, ring_per_key * static_cast<double>(end) - attention_seconds);
    const double hidden = std::min(ring, ulysses_per_query * static_cast<double>(end - begin));
    return std::min(hidden, gather_per_key * static_cast<double>(end));
  }
};

/// The ring moves keys and values of the whole prefix (in the backward pass their gradients too); Ulysses
/// moves queries, keys, values and outputs of the slice's own tokens to where their heads are and back, in the
/// backward pass the gradients of these (InfiniPipe, Eq. 3 and 4), and where there are more ranks than key heads, each has
/// one; the all-gather moves what the ring does:
/// forward the keys and values, backward these again and their gradients, reduced and scattered. An exchange
/// that is not allowed costs infinity.
[[nodiscard]] inline ContextParallelRates context_parallel_rates(const Job& job, ContextExchange exchange,
                                                                 Pass pass) {
  const std::int32_t tp = job.layout.tp, cp = job.layout.cp;
  if (cp == 1) return {};
  constexpr double never = std::numeric_limits<double>::infinity();
  const double passes = pass == Pass::forward ? 1.0 : 2.0;
  const double others = double(cp - 1) / cp;
  const double per_byte = others / group_link(job.device, std::int64_t{tp} * cp).bandwidth;
  const double per_key = passes * per_byte * kv_bytes_per_token(job.model, tp);
  if (exchange == ContextExchange::all_gather) return {never, never, per_key};
  const bool by_heads = exchange != ContextExchange::ring && ulysses_possible(job.model, tp, cp);
  const double ranks = double(tp) * cp,
               heads = job.model.heads / ranks + std::max(1.0, job.model.kv_heads / ranks);
  const double per_query = per_byte * bytes_per_bf16 * 2.0 * job.model.head_dim * heads;
  return {exchange == ContextExchange::ulysses ? never : per_key, by_heads ? per_query : never, never};
}

}  // namespace slimpack
