#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/library_attention.hpp"

namespace slimpack::kernels::cuda {

/// A pack as cuDNN takes it: a batch of sequences of different lengths ("ragged"), each with where its
/// numbers begin in each matrix. Offsets have one entry more than there are sequences: the end of the last
/// one. The gradients of keys and values, which cuDNN sets, are stored separately, one sequence's after
/// another's.
struct CudnnBatch {
  std::int64_t longest_queries = 0, longest_keys = 0;
  std::vector<std::int32_t> query_lengths, key_lengths;
  std::vector<std::int64_t> q, k, v, out, lse, dq;  ///< offsets in numbers
  std::vector<std::int64_t> gradients;              ///< of keys and values: offsets in rows
  std::vector<std::int32_t> gradient_rows;          ///< rows that these are to be added to
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
  gradients,  ///< offsets in numbers
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

/// @param kv_width numbers of a row of the gradients of keys, or of values
/// @param gradients whether there will be a backward pass. O(bytes).
[[nodiscard]] inline CudnnLists cudnn_lists(const CudnnBatch& batch, std::size_t kv_width, bool gradients) {
  CudnnLists out;
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
  add(CudnnList::lse, batch.lse);
  add(CudnnList::query_lengths, batch.query_lengths);
  add(CudnnList::key_lengths, batch.key_lengths);
  if (!gradients) return out;
  std::vector<std::int64_t> offsets;
  for (const std::int64_t row : batch.gradients) offsets.push_back(row * static_cast<std::int64_t>(kv_width));
  add(CudnnList::dq, batch.dq);
  add(CudnnList::gradients, offsets);
  add(CudnnList::gradient_rows, batch.gradient_rows);
  return out;
}

}  // namespace slimpack::kernels::cuda
