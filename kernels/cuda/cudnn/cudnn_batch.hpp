#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/library_attention.hpp"
#include "kernels/cuda/library_plans.hpp"

namespace slimpack::kernels::cuda {

/// A pack as cuDNN takes it: a batch of sequences of different lengths ("ragged"), each with where its
/// numbers begin in each matrix. Offsets have one entry more than there are sequences: the end of the last
/// one. The gradients of keys and values, which cuDNN sets, are stored separately, one sequence's after
/// another's.
struct CudnnBatch {
  std::int64_t longest_queries = 0, longest_keys = 0;
  std::vector<std::int32_t> query_lengths, key_lengths;
  std::vector<std::int64_t> q, k, v, out, dq;  ///< offsets in numbers
  std::vector<std::int64_t> lse, gradients;    ///< the latter of keys and values: offsets in rows
  std::vector<std::int32_t> gradient_rows;     ///< rows that these are to be added to
};

/// The batch of a pack's slices; a slice's keys are those of its sample up to its own end.
/// @param pieces rows in which pieces of keys' gradients begin, as `attention_work` takes them
/// @throws InvalidInput naming the first slice that is empty or reaches beyond the rows or the pieces, or a
/// row that two slices' queries or two samples' keys share, as `attention_work`; or if a slice sees no keys
/// of its own. O(n log n + keys that are seen) for n slices.
[[nodiscard]] inline CudnnBatch cudnn_batch(std::span<const AttentionSlice> slices, std::size_t queries,
                                            std::size_t keys, const AttentionStrides& strides,
                                            std::span<const std::int32_t> pieces = {}) {
  static_cast<void>(attention_work(slices, queries, keys, attention_rows, pieces));  // it checks them
  CudnnBatch out;
  const auto add = [&](std::int64_t query, std::int64_t key) {
    out.q.push_back(query * strides.q);
    out.k.push_back(key * strides.k);
    out.v.push_back(key * strides.v);
    out.out.push_back(query * strides.out);
    out.dq.push_back(query * strides.dq);
    out.lse.push_back(query);
    out.gradients.push_back(static_cast<std::int64_t>(out.gradient_rows.size()));
  };
  for (const AttentionSlice& s : slices) {
    require(s.own_keys == 1, "a slice sees other keys than its own; expected causal slices for cuDNN");
    const std::int32_t seen = s.seen();
    out.query_lengths.push_back(s.tokens);
    out.key_lengths.push_back(seen);
    out.longest_queries = std::max<std::int64_t>(out.longest_queries, s.tokens);
    out.longest_keys = std::max<std::int64_t>(out.longest_keys, seen);
    add(s.query_begin, s.key_begin);
    for (std::int32_t k = 0; k < seen; ++k) out.gradient_rows.push_back(gradient_row(s, k, pieces));
  }
  if (!slices.empty()) {
    add(slices.back().query_begin + slices.back().tokens,
        std::int64_t{slices.back().key_begin} + out.key_lengths.back());
  }
  return out;
}

/// Adds sequences of length zero at the end, until there are `samples`: a graph for more sequences takes them.
/// @param batch of at least one sequence
inline void pad(CudnnBatch& batch, std::size_t samples) {
  if (batch.query_lengths.size() >= samples) return;
  for (auto* lengths : {&batch.query_lengths, &batch.key_lengths}) lengths->resize(samples, 0);
  for (auto* offsets : {&batch.q, &batch.k, &batch.v, &batch.out, &batch.dq, &batch.lse, &batch.gradients})
    offsets->resize(samples + 1, offsets->back());
}

/// All that cuDNN's graphs of a pack are made from: packs of the same sizes share them.
struct CudnnSizes {
  HeadShape shape;
  AttentionStrides strides;
  std::int64_t tokens = 0;         ///< rows of the pack
  std::int64_t gradient_rows = 0;  ///< of keys, or of values
  std::int64_t samples = 0, longest_queries = 0, longest_keys = 0;
  bool gradients = false;
  bool fixed_order = false;  ///< gradients have the same bits each time

  [[nodiscard]] auto key() const {
    return std::tuple(shape.heads, shape.kv_heads, shape.head_dim, strides.q, strides.k, strides.v,
                      strides.out, strides.dq, tokens, gradient_rows, samples, longest_queries, longest_keys,
                      gradients, fixed_order);
  }
  [[nodiscard]] float scale() const {
    return static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  }

  /// Sizes that many packs share, none smaller than these. Memory grows with the totals, so these have four
  /// steps from a power of two to the next; what is longer than a sequence costs blocks that end at once.
  [[nodiscard]] CudnnSizes rounded() const {
    constexpr std::int64_t tile = 128;
    CudnnSizes out = *this;
    out.tokens = rounded_up(tokens, tile, 4);
    if (gradients) out.gradient_rows = rounded_up(gradient_rows, tile, 4);
    out.samples = rounded_up(samples, 1, 1);
    out.longest_queries = rounded_up(longest_queries, tile, 1);
    out.longest_keys = rounded_up(longest_keys, tile, 1);
    return out;
  }

  /// Rows that the front end is told as the most of all keys: with grouped heads it takes two floats for each
  /// number of these, instead of two bf16 for each of the batch's longest sequences. None if that is less.
  [[nodiscard]] std::optional<std::int64_t> most_keys() const {
    if (2 * gradient_rows > samples * longest_keys) return std::nullopt;
    return gradient_rows;
  }

  /// Bytes of all pairs' gradients, which the front end keeps on Hopper so that their order is fixed.
  [[nodiscard]] std::size_t fixed_order_bytes() const {
    const auto whole = [](std::int64_t n, std::int64_t tile) { return (n + tile - 1) / tile * tile; };
    return static_cast<std::size_t>(samples * whole(longest_queries, 64) * whole(longest_keys, 128)) *
           shape.heads * sizeof(Bf16);
  }
};

/// The sizes of a pack's batch; of a forward pass alone without rows of gradients.
[[nodiscard]] inline CudnnSizes cudnn_sizes(const CudnnBatch& batch, const PackProblem& pack) {
  return {.shape = pack.shape,
          .strides = pack.strides,
          .tokens = static_cast<std::int64_t>(pack.tokens),
          .gradient_rows = pack.gradients ? static_cast<std::int64_t>(batch.gradient_rows.size()) : 0,
          .samples = static_cast<std::int64_t>(batch.query_lengths.size()),
          .longest_queries = batch.longest_queries,
          .longest_keys = batch.longest_keys,
          .gradients = pack.gradients};
}

/// @throws InvalidInput if two slices are of one sample: rows of the gradients of its keys would be added to
/// by two at once. O(n log n).
inline void require_one_slice_per_sample(std::span<const AttentionSlice> slices) {
  std::vector<std::int32_t> begins;
  for (const AttentionSlice& s : slices) begins.push_back(s.key_begin);
  std::sort(begins.begin(), begins.end());
  const auto twice = std::adjacent_find(begins.begin(), begins.end());
  require(twice == begins.end(), "two slices have their sample's keys from row ",
          twice == begins.end() ? 0 : *twice, " on; expected one slice of each sample for cuDNN's gradients");
}

/// What of a batch has to lie in the GPU's memory.
enum class CudnnList : std::uint8_t {
  q,
  k,
  v,
  out,
  lse,
  dq,
  gradients,  ///< and before: offsets in numbers, of statistics [tokens x heads]
  query_lengths,
  key_lengths,
  gradient_rows
};

inline constexpr std::size_t cudnn_list_count = 10;

/// A batch's lists in one buffer, each at a multiple of 16 bytes.
struct CudnnLists {
  std::vector<std::byte> bytes;
  std::array<std::size_t, cudnn_list_count> begins{};

  [[nodiscard]] std::size_t begin(CudnnList list) const { return begins[static_cast<std::size_t>(list)]; }
};

/// @param gradients whether there will be a backward pass. O(bytes).
[[nodiscard]] inline CudnnLists cudnn_lists(const CudnnBatch& batch, const HeadShape& shape, bool gradients) {
  CudnnLists out;
  const auto in_numbers = [](std::vector<std::int64_t> rows, std::size_t width) {
    for (std::int64_t& row : rows) row *= static_cast<std::int64_t>(width);
    return rows;
  };
  const auto add = [&](CudnnList list, const auto& numbers) {
    constexpr std::size_t line = 16;
    const std::size_t at = out.bytes.size(), bytes = std::as_bytes(std::span(numbers)).size();
    out.begins[static_cast<std::size_t>(list)] = at;
    out.bytes.resize(at + (bytes + line - 1) / line * line);
    if (bytes > 0) std::memcpy(out.bytes.data() + at, numbers.data(), bytes);
  };
  add(CudnnList::q, batch.q);
  add(CudnnList::k, batch.k);
  add(CudnnList::v, batch.v);
  add(CudnnList::out, batch.out);
  add(CudnnList::lse, in_numbers(batch.lse, shape.heads));
  add(CudnnList::query_lengths, batch.query_lengths);
  add(CudnnList::key_lengths, batch.key_lengths);
  if (!gradients) return out;
  add(CudnnList::dq, batch.dq);
  add(CudnnList::gradients, in_numbers(batch.gradients, shape.kv_width()));
  add(CudnnList::gradient_rows, batch.gradient_rows);
  return out;
}

}  // namespace slimpack::kernels::cuda
