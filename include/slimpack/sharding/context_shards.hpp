#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/flops.hpp"
#include "slimpack/core/packs.hpp"

namespace slimpack {

/// A sequence of documents (or of slices of documents) divided over context-parallel ranks.
struct ContextShards {
  /// `ranks[r]`: the chunks of rank r in the sequence's order, none empty, no two of them adjacent. A chunk
  /// is a slice whose `sample` is the document's index in the sequence and whose bounds are positions in the
  /// document: what attention kernels and cost models take.
  Packs ranks;
  /// For each document, the number to add to a position in it to get the token's index in the sequence;
  /// negative for a slice that begins further in its document than in the sequence.
  std::vector<Tokens> offsets;
  Tokens tokens = 0;  ///< of the whole sequence

  friend bool operator==(const ContextShards&, const ContextShards&) = default;
};

/// Documents of these lengths, whole, one after another. @throws InvalidInput naming the first length that is
/// not positive. O(documents).
[[nodiscard]] inline std::vector<Slice> whole_documents(std::span<const Tokens> lengths) {
  std::vector<Slice> documents;
  documents.reserve(lengths.size());
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    require(lengths[d] > 0, "document ", d, " has ", lengths[d], " tokens; expected a positive number");
    documents.push_back({static_cast<SampleId>(d), 0, lengths[d]});
  }
  return documents;
}

/// Tokens of a rank: its indices in the sequence, ascending. All ranks' lists together are a permutation of
/// `0 … tokens - 1`.
/// @param out is overwritten; its memory is reused.
/// @throws InvalidInput if `Index` can't count the sequence's tokens. O(tokens of the rank).
template <std::signed_integral Index>
void token_indices(const ContextShards& shards, std::size_t rank, std::vector<Index>& out) {
  constexpr auto most = static_cast<std::int64_t>(std::numeric_limits<Index>::max());
  require(shards.tokens <= most, "the sequence has ", shards.tokens, " tokens; expected at most ", most,
          ", because their indices are integers of ", 8 * sizeof(Index), " bits");
  const std::span<const Slice> chunks = shards.ranks[rank];
  out.resize(static_cast<std::size_t>(count_tokens(chunks)));
  std::size_t at = 0;
  for (const Slice& chunk : chunks) {
    const Tokens offset = shards.offsets[chunk.sample];
    for (Tokens t = chunk.begin; t < chunk.end; ++t) out[at++] = static_cast<Index>(offset + t);
  }
}

/// The same as a new list.
template <std::signed_integral Index = std::int64_t>
[[nodiscard]] std::vector<Index> token_indices(const ContextShards& shards, std::size_t rank) {
  std::vector<Index> out;
  token_indices(shards, rank, out);
  return out;
}

/// Attention work of chunks: twice the number of their (query, key) pairs, causal. O(chunks).
[[nodiscard]] constexpr double twice_causal_pairs(std::span<const Slice> chunks) {
  double sum = 0.0;
  for (const Slice& chunk : chunks) sum += twice_causal_pairs(chunk.begin, chunk.end);
  return sum;
}

/// How evenly ranks are loaded.
struct ShardBalance {
  Tokens fewest_tokens = 0, most_tokens = 0;   ///< of a rank
  double least_pairs = 0.0, most_pairs = 0.0;  ///< of a rank: twice its (query, key) pairs
  double mean_pairs = 0.0;

  /// Attention work of the busiest rank over the mean; 1 is perfect.
  [[nodiscard]] double max_over_mean() const { return most_pairs / mean_pairs; }
};

/// O(chunks). @pre there is at least one rank.
[[nodiscard]] inline ShardBalance balance(const ContextShards& shards) {
  ShardBalance out{.fewest_tokens = std::numeric_limits<Tokens>::max(),
                   .least_pairs = std::numeric_limits<double>::infinity()};
  for (std::size_t r = 0; r < shards.ranks.size(); ++r) {
    const Tokens tokens = count_tokens(shards.ranks[r]);
    const double pairs = twice_causal_pairs(shards.ranks[r]);
    out.fewest_tokens = std::min(out.fewest_tokens, tokens);
    out.most_tokens = std::max(out.most_tokens, tokens);
    out.least_pairs = std::min(out.least_pairs, pairs);
    out.most_pairs = std::max(out.most_pairs, pairs);
    out.mean_pairs += pairs;
  }
  out.mean_pairs /= static_cast<double>(shards.ranks.size());
  return out;
}

}  // namespace slimpack
