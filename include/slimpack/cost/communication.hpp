#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "slimpack/cost/exchange.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/model/device.hpp"
#include "slimpack/model/transformer.hpp"

namespace slimpack {

inline constexpr double bytes_per_bf16 = 2.0;

/// An all-to-all gives every rank whole heads: `tp * cp` has to divide the query heads, and the key/value heads
/// or be divided by them (heads are then replicated).
[[nodiscard]] constexpr bool all_to_all_possible(const Transformer& m, std::int32_t tp, std::int32_t cp) {
  const std::int32_t ranks = tp * cp;
  return m.heads % ranks == 0 && (m.kv_heads % ranks == 0 || ranks % m.kv_heads == 0);
}

/// Those of some ways to exchange that `cp` context ranks of `tp` tensor ranks each can use.
[[nodiscard]] constexpr ExchangeSet possible_exchanges(const Transformer& m, std::int32_t tp, std::int32_t cp,
                                                       ExchangeSet of) {
  ExchangeSet possible;
  for (const KeyExchange e : key_exchanges) {
    if (of.contains(e) && (e != KeyExchange::all_to_all || all_to_all_possible(m, tp, cp))) possible.add(e);
  }
  return possible;
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

/// Seconds per token and layer of tensor and sequence parallelism, none of it hidden: all-gathers and
/// reduce-scatters of the hidden states, two each forward; the backward pass gathers the inputs of its weight
/// gradients again. @param link of the `tp` ranks. @param cp context ranks that share the tokens.
[[nodiscard]] inline double tensor_parallel_seconds(const Transformer& m, std::int32_t tp, std::int32_t cp,
                                                    const Link& link, Pass pass) {
  if (tp == 1) return 0.0;
  const double exchanges = pass == Pass::forward ? 4.0 : 6.0;
  const double bytes = exchanges * bytes_per_bf16 * m.hidden * (tp - 1.0) / tp / cp;
  return bytes / link.bandwidth;
}

/// Bytes that a slice moves to and from a device's memory for each token of its prefix and each layer, on one rank with
/// so many bytes of keys and values per token; the sample's first slice, and a whole sample, have none. Forward, attention
/// reads keys and values. Backward, it reads them again and writes their gradients, which are then read and added to
/// those that later slices left (`sum_element_bytes` each): FlashAttention's backward kernels take all keys of a call,
/// and give the gradients that are due to its own queries alone. Caches are taken to be buffers in place, as in
/// InfiniPipe's section 4; implementations that join them into a new buffer for each slice move more.
///
/// Tiles of queries that run together read the same keys at about the same time, and find them in the L2 cache: a slice
/// reads its prefix once, however many tiles it has.
[[nodiscard]] constexpr double prefix_bytes(double kv_bytes, double sum_element_bytes, Pass pass) {
  if (pass == Pass::forward) return kv_bytes;
  return kv_bytes * (3.0 + 2.0 * sum_element_bytes / bytes_per_bf16);
}

/// What one way to exchange adds to one layer, as rates on each rank.
struct ExchangeRates {
  double per_key = 0.0;     ///< seconds per token of the prefix and the slice
  double per_query = 0.0;   ///< seconds per token of the slice
  double hidden = 0.0;      ///< share of it during which attention goes on; no more than attention lasts
  double per_prefix = 0.0;  ///< seconds per token of the prefix, for memory, never hidden

  /// Seconds added to a slice `[begin, end)` whose attention takes `attention_seconds` on each rank.
  [[nodiscard]] constexpr double seconds(Tokens begin, Tokens end, double attention_seconds) const {
    const double all = per_key * static_cast<double>(end) + per_query * static_cast<double>(end - begin);
    return all - std::min(hidden * all, attention_seconds) + per_prefix * static_cast<double>(begin);
  }
};

/// Rates of one way to exchange among `cp` context ranks of `tp` tensor ranks each, in bf16; memory apart.
/// - ring: the keys and values of the whole prefix; in the backward pass their gradients as well. Attention goes on all the while.
/// - all-to-all: queries, keys, values and outputs of the slice's own tokens to where their heads are and back, in
///   the backward pass the gradients of these (InfiniPipe, Eq. 3 and 4). Where there are more ranks than key heads,
///   each has one.
/// - all-gather: what the ring moves; backward the keys and values again and their gradients, reduced and scattered.
[[nodiscard]] inline ExchangeRates exchange_rates(const Transformer& m, std::int32_t tp, std::int32_t cp,
                                                  const Link& link, KeyExchange exchange, Pass pass) {
  if (cp == 1) return {};
  const double per_byte = (cp - 1.0) / cp / link.bandwidth;
  if (exchange == KeyExchange::all_to_all) {
    const double ranks = double(tp) * cp, heads = m.heads / ranks + std::max(1.0, m.kv_heads / ranks);
    return {.per_query = per_byte * bytes_per_bf16 * 2.0 * m.head_dim * heads};
  }
  const double passes = pass == Pass::forward ? 1.0 : 2.0;
  return {.per_key = passes * per_byte * kv_bytes_per_token(m, tp),
          .hidden = exchange == KeyExchange::ring ? 1.0 : 0.0};
}

/// What the cheapest of several ways to exchange adds to one layer.
class CheapestExchange {
 public:
  /// One more way. @pre fewer than `key_exchanges` has were added.
  void add(const ExchangeRates& rates) { rates_[count_++] = rates; }

  /// Seconds added to a slice `[begin, end)` whose attention takes `attention_seconds` on each rank. Nothing if there is
  /// no way.
  [[nodiscard]] double seconds(Tokens begin, Tokens end, double attention_seconds) const {
    if (count_ == 0) return 0.0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < count_; ++i)
      least = std::min(least, rates_[i].seconds(begin, end, attention_seconds));
    return least;
  }
  /// Whether that is a polynomial: there is one way, and nothing hides it.
  [[nodiscard]] bool is_polynomial() const { return count_ == 0 || (count_ == 1 && rates_[0].hidden == 0.0); }
  /// Of the first way. @pre is_polynomial().
  [[nodiscard]] const ExchangeRates& polynomial() const { return rates_[0]; }

 private:
  std::array<ExchangeRates, key_exchanges.size()> rates_;
  std::size_t count_ = 0;
};

}  // namespace slimpack
