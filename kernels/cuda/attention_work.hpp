#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/indices.hpp"

namespace slimpack::kernels::cuda {

/// A slice of a pack: its queries are rows of the pack, its keys and values rows of a cache, where those of
/// its sample stand in order from the first on. Each query sees the keys up to its own place; or, where the
/// cache has keys of other tokens alone, all of the same ones.
struct AttentionSlice {
  std::int32_t query_begin = 0;  ///< row of the pack
  std::int32_t tokens = 0;
  std::int32_t key_begin = 0;  ///< row of the cache that holds the sample's first token
  std::int32_t prefix = 0;     ///< tokens of the sample before the slice
  std::int32_t gradient_piece =
      0;  ///< the first of its sample's keys' gradients; the same for all slices of the sample
  std::int32_t own_keys = 1;  ///< 0: the queries see the keys of the prefix, and no others

  /// Keys that the last query sees.
  [[nodiscard]] constexpr std::int32_t seen() const { return prefix + own_keys * tokens; }
};

/// Queries of a slice that one block takes for each head.
struct QueryItem {
  std::int32_t slice = 0;
  std::int32_t first = 0;  ///< token of the slice
};

/// Keys of a sample that one block takes for each key/value head, with all slices that may see them: no other
/// block adds to their gradients.
struct KeyItem {
  std::int32_t slice = 0, end = 0;  ///< the sample's slices, among those of the work
  std::int32_t first = 0;           ///< token of the sample
  std::int32_t gradients = 0;       ///< row of its gradients; the others' follow
};

/// Tokens of a block: of the kernels that run on every GPU, and of those for Hopper, whose warps work in
/// groups. Which of them run, is settled here, where a pack's work is cut.
inline constexpr std::int32_t attention_rows = 64, group_attention_rows = 128;

/// Keys of a piece of the gradients of a sample's keys. A piece's rows are consecutive, pieces are anywhere:
/// no block adds to two of them.
inline constexpr std::int32_t gradient_piece_rows = 128;
static_assert(gradient_piece_rows % attention_rows == 0 && gradient_piece_rows % group_attention_rows == 0);

/// Row of the gradients of a key, where a pack has them.
/// @param key token of the slice's sample @param pieces row in which each piece begins; empty if gradients
/// stand in the rows of their keys
[[nodiscard]] inline std::int32_t gradient_row(const AttentionSlice& slice, std::int32_t key,
                                               std::span<const std::int32_t> pieces) {
  if (pieces.empty()) return slice.key_begin + key;
  const auto piece = static_cast<std::size_t>(slice.gradient_piece + key / gradient_piece_rows);
  return pieces[piece] + key % gradient_piece_rows;
}

/// What the blocks of a pack's attention do: computed once for a pack, used by all layers. Blocks start in
/// the order of the items, the longest first, so that none is left over at the end.
struct AttentionWork {
  std::vector<AttentionSlice> slices;  ///< by sample
  std::vector<QueryItem> queries;      ///< each with as many key tiles as it sees, most first
  std::vector<KeyItem> keys;           ///< by the pairs of query and key, most first
  std::int32_t rows = attention_rows;  ///< tokens of a block
};

namespace detail {

/// Queries of a slice that see a key of its sample or one before.
[[nodiscard]] constexpr std::int64_t seeing(const AttentionSlice& s, std::int32_t key) {
  if (s.own_keys == 0) return key < s.prefix ? s.tokens : 0;
  return std::clamp<std::int64_t>(std::int64_t{s.prefix} + s.tokens - key, 0, s.tokens);
}

inline void require_slices(std::span<const AttentionSlice> slices, std::int64_t queries, std::int64_t keys) {
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const AttentionSlice& s = slices[i];
    require(s.tokens > 0 && s.prefix >= 0, "slice ", i, " has ", s.tokens, " tokens after ", s.prefix,
            "; expected at least 1 after at least 0");
    require(s.own_keys == 1 || (s.own_keys == 0 && s.prefix > 0), "slice ", i, " has own_keys ", s.own_keys,
            " and a prefix of ", s.prefix, "; expected 1, or 0 with keys in the prefix");
    require(s.query_begin >= 0 && std::int64_t{s.query_begin} + s.tokens <= queries, "slice ", i,
            " begins at row ", s.query_begin, " and has ", s.tokens, "; expected them among the pack's ",
            queries);
    const std::int64_t seen = std::int64_t{s.prefix} + std::int64_t{s.own_keys} * s.tokens;
    require(s.key_begin >= 0 && std::int64_t{s.key_begin} + seen <= keys, "slice ", i,
            " has its sample's keys from row ", s.key_begin, " on, ", seen,
            " of them; expected them among the cache's ", keys);
  }
}

inline void require_pieces(std::span<const AttentionSlice> slices, std::span<const std::int32_t> pieces) {
  if (pieces.empty()) return;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const AttentionSlice& s = slices[i];
    const std::int64_t end =
        s.gradient_piece + (std::int64_t{s.seen()} + gradient_piece_rows - 1) / gradient_piece_rows;
    require(s.gradient_piece >= 0 && end <= static_cast<std::int64_t>(pieces.size()), "slice ", i,
            " has its keys' gradients in the pieces from ", s.gradient_piece, " to ", end,
            "; expected them among the ", pieces.size(), " that there are");
  }
}

/// Slices stand by sample. Two write to the same rows if queries overlap, or samples do.
inline void require_apart(std::span<const AttentionSlice> slices) {
  std::vector<AttentionSlice> by_query(slices.begin(), slices.end());
  std::sort(by_query.begin(), by_query.end(),
            [](const auto& a, const auto& b) { return a.query_begin < b.query_begin; });
  for (std::size_t i = 1; i < by_query.size(); ++i) {
    require(by_query[i - 1].query_begin + by_query[i - 1].tokens <= by_query[i].query_begin,
            "two slices have row ", by_query[i].query_begin, " of the pack; expected each row in one");
  }
  std::int64_t end = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const AttentionSlice& s = slices[i];
    if (i > 0 && s.key_begin != slices[i - 1].key_begin) {
      require(s.key_begin >= end, "two samples have row ", s.key_begin,
              " of the cache; expected each row in one");
    }
    require(
        i == 0 || s.key_begin != slices[i - 1].key_begin || s.gradient_piece == slices[i - 1].gradient_piece,
        "two slices of one sample name the pieces ", slices[i == 0 ? 0 : i - 1].gradient_piece, " and ",
        s.gradient_piece, " of its keys' gradients; expected the same");
    end = std::max(end, std::int64_t{s.key_begin} + s.seen());
  }
}

}  // namespace detail

/// The slices of a pack, from the plan's index arrays.
/// @param cache_begins row of the cache where each slice's sample begins; empty if keys were gathered, slice
/// by slice, as `kv_prefix_offsets` says
/// @throws InvalidInput if there are not as many as slices. O(slices).
[[nodiscard]] inline std::vector<AttentionSlice> attention_slices(
    const PackIndices& pack, std::span<const std::int32_t> cache_begins = {}) {
  const std::size_t n = pack.kv_prefix_lengths.size();
  require(cache_begins.empty() || cache_begins.size() == n, "there are ", cache_begins.size(),
          " begins in the cache for ", n, " slices; expected one each");
  std::vector<AttentionSlice> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = {.query_begin = pack.cu_seqlens_q[i],
              .tokens = pack.cu_seqlens_q[i + 1] - pack.cu_seqlens_q[i],
              .key_begin = cache_begins.empty() ? pack.kv_prefix_offsets[i] : cache_begins[i],
              .prefix = pack.kv_prefix_lengths[i]};
  }
  return out;
}

/// Cuts the attention of a pack into blocks' work. A sample may have several slices in the pack: they name
/// the same `key_begin`.
/// @param queries rows of the pack @param keys rows of the cache
/// @param rows tokens of a block, 64 or 128: `best_attention_rows` (attention.hpp) says what suits the GPU
/// @param pieces rows in which pieces of keys' gradients begin, as slices name them; empty if gradients stand
/// in the rows of their keys
/// @throws InvalidInput naming the first slice that is empty or reaches beyond the rows or the pieces, or a
/// row that two slices' queries or two samples' keys share. O(n log n) for n = slices and blocks.
[[nodiscard]] inline AttentionWork attention_work(std::span<const AttentionSlice> slices, std::size_t queries,
                                                  std::size_t keys, std::int32_t rows = attention_rows,
                                                  std::span<const std::int32_t> pieces = {}) {
  require(rows == attention_rows || rows == group_attention_rows, "a block has ", rows,
          " tokens; expected 64 or 128");
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
  require(queries <= most && keys <= most, "a pack has ", queries, " queries and ", keys,
          " keys; expected at most 2147483647");
  detail::require_slices(slices, static_cast<std::int64_t>(queries), static_cast<std::int64_t>(keys));
  detail::require_pieces(slices, pieces);
  AttentionWork work{.slices = {slices.begin(), slices.end()}, .queries = {}, .keys = {}, .rows = rows};
  std::stable_sort(work.slices.begin(), work.slices.end(),
                   [](const auto& a, const auto& b) { return a.key_begin < b.key_begin; });
  detail::require_apart(work.slices);

  struct Costed {
    std::int64_t cost;
    KeyItem item;
  };
  std::vector<Costed> costed;
  const auto n = static_cast<std::int32_t>(work.slices.size());
  const auto slice = [&](std::int32_t i) -> const AttentionSlice& {
    return work.slices[static_cast<std::size_t>(i)];
  };
  for (std::int32_t begin = 0, end = 0; begin < n; begin = end) {
    std::int32_t tokens = 0;
    for (end = begin; end < n && slice(end).key_begin == slice(begin).key_begin; ++end) {
      tokens = std::max(tokens, slice(end).seen());
      for (std::int64_t first = 0; first < slice(end).tokens; first += rows) {
        work.queries.push_back({end, static_cast<std::int32_t>(first)});
      }
    }
    for (std::int64_t first = 0; first < tokens; first += rows) {
      const auto key = static_cast<std::int32_t>(first);
      Costed c{.cost = 0, .item = {begin, end, key, gradient_row(slice(begin), key, pieces)}};
      for (std::int32_t i = begin; i < end; ++i) c.cost += detail::seeing(slice(i), c.item.first);
      costed.push_back(c);
    }
  }
  const auto sees = [&](const QueryItem& q) {
    return std::int64_t{slice(q.slice).prefix} + std::int64_t{slice(q.slice).own_keys} * q.first;
  };
  std::stable_sort(work.queries.begin(), work.queries.end(),
                   [&](const QueryItem& a, const QueryItem& b) { return sees(a) > sees(b); });
  std::stable_sort(costed.begin(), costed.end(),
                   [](const Costed& a, const Costed& b) { return a.cost > b.cost; });
  for (const Costed& c : costed) work.keys.push_back(c.item);
  return work;
}

}  // namespace slimpack::kernels::cuda
