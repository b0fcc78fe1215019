#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack {

struct IndexOptions {
  Tokens alignment = 1;  ///< rows of each slice are padded to a multiple of this in the padded arrays
};

/// Index arrays of one pack of n slices, as variable-length attention kernels take them (FlashAttention's
/// `cu_seqlens_q`, `cu_seqlens_k`, `max_seqlen_q`, `max_seqlen_k`): the pack's queries are the tokens of its
/// slices, one slice after another. Its keys and values are gathered per slice: the tokens before the slice
/// (its prefix, from the KV cache), then the slice's own. The arrays describe the whole pack, before context
/// parallelism shards it; `plan/shards.hpp` has those of each rank.
struct PackIndices {
  std::vector<std::int32_t> cu_seqlens_q;  ///< n + 1: where each slice's queries begin; the last is their sum
  std::vector<std::int32_t> cu_seqlens_k;  ///< n + 1: the same of keys; slice [b, e) has e
  std::vector<std::int32_t>
      cu_seqlens_q_padded;  ///< n + 1: with each slice's queries padded to the alignment
  std::vector<std::int32_t> cu_seqlens_k_padded;  ///< n + 1: with each slice's keys padded to the alignment
  std::int32_t max_seqlen_q = 0;                  ///< longest slice, without padding; 0 in an empty pack
  std::int32_t max_seqlen_k = 0;                  ///< most keys of a slice, without padding
  std::vector<std::int32_t> positions;  ///< one per query: its place in its sample, b … e - 1 per slice
  std::vector<std::int32_t> positions_padded;   ///< the same by `cu_seqlens_q_padded`; 0 in padding
  std::vector<std::int32_t> kv_prefix_lengths;  ///< n: tokens before the slice, b
  std::vector<std::int32_t>
      kv_prefix_offsets;  ///< n: first row of the prefix among the gathered keys; the slice's
                          ///< own keys follow the prefix
  std::vector<std::int32_t> kv_prefix_offsets_padded;  ///< n: the same by `cu_seqlens_k_padded`
  std::vector<SampleId> samples;                       ///< n: sample of each slice
  std::vector<std::int32_t>
      label_tokens;  ///< n: tokens with a next token to predict: all but a sample's last
};

namespace detail {

/// Fills the arrays that have one entry per slice; `name` names the pack in messages.
class SliceIndexer {
 public:
  SliceIndexer(Tokens alignment, const std::string& name, PackIndices& out)
      : alignment_(alignment), name_(name), out_(out) {}

  void begin(std::size_t slices) {
    for (auto* list :
         {&out_.cu_seqlens_q, &out_.cu_seqlens_k, &out_.cu_seqlens_q_padded, &out_.cu_seqlens_k_padded}) {
      list->clear();
      list->reserve(slices + 1);
      list->push_back(0);
    }
    for (auto* list : {&out_.kv_prefix_lengths, &out_.kv_prefix_offsets, &out_.kv_prefix_offsets_padded,
                       &out_.label_tokens}) {
      list->clear();
      list->reserve(slices);
    }
    out_.samples.clear();
    out_.samples.reserve(slices);
    out_.max_seqlen_q = out_.max_seqlen_k = 0;
  }

  void add(const Slice& slice, Tokens length) {
    require(0 <= slice.begin && slice.begin < slice.end && slice.end <= length, "pack ", name_,
            " holds tokens ", slice.begin, " to ", slice.end, " of sample ", slice.sample,
            "; expected a range within its ", length, " tokens, not empty");
    const std::int32_t queries = fits(slice.size()), keys = fits(slice.end);
    out_.samples.push_back(slice.sample);
    out_.kv_prefix_lengths.push_back(keys - queries);
    out_.kv_prefix_offsets.push_back(out_.cu_seqlens_k.back());
    out_.kv_prefix_offsets_padded.push_back(out_.cu_seqlens_k_padded.back());
    out_.label_tokens.push_back(slice.end == length ? queries - 1 : queries);
    append(out_.cu_seqlens_q, queries);
    append(out_.cu_seqlens_k, keys);
    append(out_.cu_seqlens_q_padded, padded(queries));
    append(out_.cu_seqlens_k_padded, padded(keys));
    out_.max_seqlen_q = std::max(out_.max_seqlen_q, queries);
    out_.max_seqlen_k = std::max(out_.max_seqlen_k, keys);
  }

 private:
  [[nodiscard]] Tokens padded(Tokens rows) const { return (rows + alignment_ - 1) / alignment_ * alignment_; }

  [[nodiscard]] std::int32_t fits(Tokens rows) const {
    constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
    require(rows <= most, "pack ", name_, " needs ", rows, " rows of queries or keys; expected at most ",
            most, ", for attention kernels index them with 32 bits");
    return static_cast<std::int32_t>(rows);
  }

  void append(std::vector<std::int32_t>& offsets, Tokens rows) const {
    offsets.push_back(fits(offsets.back() + rows));
  }

  Tokens alignment_;
  const std::string& name_;
  PackIndices& out_;
};

inline void fill_positions(std::span<const Slice> pack, std::span<const std::int32_t> offsets,
                           std::vector<std::int32_t>& positions) {
  positions.resize(static_cast<std::size_t>(offsets.back()));
  for (std::size_t i = 0; i < pack.size(); ++i) {
    auto at = static_cast<std::size_t>(offsets[i]);
    for (Tokens t = pack[i].begin; t < pack[i].end; ++t) positions[at++] = static_cast<std::int32_t>(t);
    std::fill(positions.begin() + std::ptrdiff_t(at), positions.begin() + offsets[i + 1], 0);
  }
}

}  // namespace detail

/// Index arrays of any slices of a plan's samples, as if they were a pack. @param name of the pack, for messages.
/// @param out is overwritten; its memory is reused, and nothing is allocated once it is large enough.
/// @throws InvalidInput naming the pack if it holds tokens that its samples don't have, or needs more rows than
/// 32 bits count, padding included; or if the alignment is not in 1 … 2^31 - 1. `out` then holds nothing useful.
/// Complexity: O(slices + their tokens, padding included).
inline void slice_indices(const Plan& plan, std::span<const Slice> slices, const std::string& name,
                          const IndexOptions& options, PackIndices& out) {
  require(options.alignment > 0 && options.alignment <= std::numeric_limits<std::int32_t>::max(),
          "alignment is ", options.alignment, "; expected 1 to ", std::numeric_limits<std::int32_t>::max());
  detail::SliceIndexer indexer(options.alignment, name, out);
  indexer.begin(slices.size());
  for (const Slice& slice : slices) {
    require(slice.sample < plan.tokens.size(), "pack ", name, " holds sample ", slice.sample,
            "; expected ids below ", plan.tokens.size());
    indexer.add(slice, plan.tokens[slice.sample]);
  }
  detail::fill_positions(slices, out.cu_seqlens_q, out.positions);
  detail::fill_positions(slices, out.cu_seqlens_q_padded, out.positions_padded);
}

/// Index arrays of the pack that a task runs; the two passes have different packs.
/// @throws InvalidInput as `slice_indices`, or if the pack doesn't exist. Complexity: that of `slice_indices`.
inline void pack_indices(const Plan& plan, Task task, const IndexOptions& options, PackIndices& out) {
  const Packs& packs = plan.of(task.pass).packs;
  const std::string name = to_string(task);
  require(task.pack < packs.size(), "pack ", name, " does not exist; expected a number below ", packs.size());
  slice_indices(plan, packs[task.pack], name, options, out);
}

/// The same in arrays of their own.
[[nodiscard]] inline PackIndices pack_indices(const Plan& plan, Task task, const IndexOptions& options = {}) {
  PackIndices out;
  pack_indices(plan, task, options, out);
  return out;
}

/// Tokens of the whole batch that have a next token to predict: all but each sample's last; deferred samples
/// don't count. The mean loss of an iteration is the sum over all packs of all pipelines divided by this,
/// however the samples were cut. O(samples).
[[nodiscard]] inline Tokens label_tokens(const Plan& plan) {
  Tokens count = 0;
  for (const Tokens length : plan.tokens) count += length - 1;
  for (const SampleId id : plan.deferred) {
    require(id < plan.tokens.size(), "deferred holds sample ", id, "; expected ids below ",
            plan.tokens.size());
    count -= plan.tokens[id] - 1;
  }
  return count;
}

}  // namespace slimpack
