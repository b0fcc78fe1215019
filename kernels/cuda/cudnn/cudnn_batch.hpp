#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/attention_work.hpp"

namespace slimpack::kernels::cuda {

/// Numbers from one row to the next.
struct AttentionStrides {
  std::int64_t q = 0, k = 0, v = 0;
  std::int64_t out = 0;  ///< of the output, its gradient and the queries' gradients
};

/// A pack as cuDNN takes it: a batch of sequences of different lengths ("ragged"), each with where its numbers
/// begin in each matrix. Offsets have one entry more than there are sequences: the end of the last one.
struct CudnnBatch {
  std::int64_t longest_queries = 0, longest_keys = 0;
  std::vector<std::int32_t> query_lengths, key_lengths;
  std::vector<std::int64_t> q, k, v, out, lse;  ///< offsets in numbers
};

/// The batch of a pack's slices; a slice's keys are those of its sample up to its own end.
/// @throws InvalidInput naming the first slice that is empty or reaches beyond the rows, or a row that two
/// slices' queries or two samples' keys share, as `attention_work`; or if a slice sees no keys of its own. O(n log n) for n slices.
[[nodiscard]] inline CudnnBatch cudnn_batch(std::span<const AttentionSlice> slices, std::size_t queries,
                                            std::size_t keys, const AttentionStrides& strides) {
  static_cast<void>(attention_work(slices, queries, keys));  // it checks them
  CudnnBatch out;
  const auto add = [&](std::int64_t query, std::int64_t key) {
    out.q.push_back(query * strides.q);
    out.k.push_back(key * strides.k);
    out.v.push_back(key * strides.v);
    out.out.push_back(query * strides.out);
    out.lse.push_back(query);
  };
  for (const AttentionSlice& s : slices) {
    require(s.own_keys == 1, "a slice sees other keys than its own; expected causal slices for cuDNN");
    const std::int32_t seen = s.seen();
    out.query_lengths.push_back(s.tokens);
    out.key_lengths.push_back(seen);
    out.longest_queries = std::max<std::int64_t>(out.longest_queries, s.tokens);
    out.longest_keys = std::max<std::int64_t>(out.longest_keys, seen);
    add(s.query_begin, s.key_begin);
  }
  if (!slices.empty()) {
    add(slices.back().query_begin + slices.back().tokens,
        std::int64_t{slices.back().key_begin} + out.key_lengths.back());
  }
  return out;
}

/// @throws InvalidInput if two slices are of one sample: cuDNN sets the gradients of keys, so that one slice's
/// would be lost; or if a slice's gradients lie elsewhere than its keys. O(n log n).
inline void require_one_slice_per_sample(std::span<const AttentionSlice> slices) {
  std::vector<std::int32_t> begins;
  for (const AttentionSlice& s : slices) {
    require(s.gradient_shift == 0, "a slice has its gradients ", s.gradient_shift,
            " rows from its keys; expected 0 for cuDNN's gradients");
    begins.push_back(s.key_begin);
  }
  std::sort(begins.begin(), begins.end());
  const auto twice = std::adjacent_find(begins.begin(), begins.end());
  require(twice == begins.end(), "two slices have their sample's keys from row ",
          twice == begins.end() ? 0 : *twice, " on; expected one slice of each sample for cuDNN's gradients");
}

}  // namespace slimpack::kernels::cuda
