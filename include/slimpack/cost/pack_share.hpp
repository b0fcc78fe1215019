#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/core/ids.hpp"

namespace slimpack {

/// What one of the ranks that share a pack has of it.
///
/// Ranks meet once in each layer, where keys are exchanged: between two such meetings, each computes its attention and the
/// dense products of its own tokens, one after the other. So a layer takes as long as the rank for which both together take
/// longest:
/// - All-gather: all wait for all keys before attention (backward: for all gradients of keys after it).
/// - Ring: a rank needs the keys of another only when it has computed with those before them, so it may run ahead by a part
///   of its attention; a rank that has more tokens and less attention than the others keeps nobody waiting.
/// - All-to-all: ranks meet before attention and after it, but all have the same attention, so the sum is largest where there
///   are most tokens.
struct PackShare {
  /// Seconds of one layer, the kernel's launch included; zero if there is no attention model.
  double attention = 0.0;
  /// As many times its tokens as there are ranks, less the pack's tokens: zero if ranks hold equal shares.
  double extra_tokens = 0.0;

  friend bool operator==(const PackShare&, const PackShare&) = default;
};

/// Seconds of the slowest rank. @param per_attention per second of `attention`. @param per_token per token of a pack that
/// ranks share equally. Neither is negative. @pre there is a share. O(shares).
[[nodiscard]] inline double slowest_share(std::span<const PackShare> shares, double per_attention,
                                          double per_token) {
  const auto seconds = [&](const PackShare& s) {
    return per_attention * s.attention + per_token * s.extra_tokens;
  };
  double most = seconds(shares.front());
  for (const PackShare& share : shares.subspan(1)) most = std::max(most, seconds(share));
  return most;
}

/// Replaces `out` by the shares of ranks that may be the slowest: those that no other rank equals or exceeds in both
/// attention and tokens. Few are left. @param attention, tokens of each rank; there is at least one.
/// O(ranks * shares left).
inline void slowest_candidates(std::span<const double> attention, std::span<const Tokens> tokens,
                               std::vector<PackShare>& out) {
  out.clear();
  Tokens all = 0;
  for (const Tokens own : tokens) all += own;
  const auto covers = [](const PackShare& a, const PackShare& b) {
    return a.attention >= b.attention && a.extra_tokens >= b.extra_tokens;
  };
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    const PackShare own{attention[r],
                        static_cast<double>(static_cast<Tokens>(tokens.size()) * tokens[r] - all)};
    if (std::any_of(out.begin(), out.end(), [&](const PackShare& other) { return covers(other, own); }))
      continue;
    std::erase_if(out, [&](const PackShare& other) { return covers(own, other); });
    out.push_back(own);
  }
}

}  // namespace slimpack
