#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/indices.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/sharding/by_position.hpp"
#include "slimpack/sharding/context.hpp"

namespace slimpack {

/// Context-parallel ranks of a pack: those of all pipelines that run it. @pre the pack and its pipelines exist.
[[nodiscard]] inline std::int32_t context_ranks(const Plan& plan, Task task) {
  std::int32_t ranks = 0;
  for (const PipelineId p : plan.of(task.pass).pipelines[task.pack]) ranks += plan.pipelines[p].cp;
  return ranks;
}

/// The chunks of each context-parallel rank of a pack, by the pack's `sharding`; the pack's slices are the
/// documents of the sequence. Ranks of a merged pack are numbered through its pipelines in their order.
/// @throws InvalidInput naming the pack if it doesn't exist, has ranks but no sharding, is sharded by position in a
/// plan that names no block, or as `ContextSharder::shard`. Complexity: that of `ContextSharder::shard`.
[[nodiscard]] inline ContextShards pack_shards(const Plan& plan, Task task) {
  const PassPlan& pass = plan.of(task.pass);
  const std::string name = to_string(task);
  require(task.pack < pass.packs.size(), "pack ", name, " does not exist; expected a number below ",
          pass.packs.size());
  const std::span<const Slice> pack = pass.packs[task.pack];
  const std::int32_t ranks = context_ranks(plan, task);
  const Sharding kind = pass.sharding[task.pack];
  require(kind != Sharding::none || ranks == 1, "pack ", name, " has ", ranks,
          " context-parallel ranks and no sharding; expected one rank, or a sharding");
  if (kind == Sharding::by_position) {
    require(pass.block > 0, "pack ", name,
            " is sharded by position in chunks of unknown size; expected a plan that names its block");
    return position_shards(pack, ranks, pass.block);
  }
  std::vector<std::uint8_t> marks(pack.size(), kind == Sharding::per_document ? 1 : 0);
  if (kind == Sharding::mixed) {
    require(task.pack < pass.per_document.size(), "pack ", name,
            " is mixed; expected a list of its slices that are sharded by themselves");
    for (const std::uint32_t i : pass.per_document[task.pack]) {
      require(i < marks.size(), "pack ", name, " shards slice ", i, " by itself; expected places below ",
              marks.size());
      marks[i] = 1;
    }
  }
  return mixed_shards(pack, ranks, marks);
}

/// What an attention kernel of one context-parallel rank takes. `chunks` is of the rank's chunks as `PackIndices`
/// is of a pack's slices: a chunk's keys are all of its sample up to its end, gathered from the other ranks and
/// the KV cache.
struct RankIndices {
  std::vector<std::int32_t> tokens;  ///< rows of the whole pack's queries that the rank holds, ascending
  PackIndices chunks;
};

/// Index arrays of one rank. @param shards of the pack, by `pack_shards`.
/// @param out is overwritten; its memory is reused.
/// @throws InvalidInput as `pack_indices`. Complexity: O(chunks + tokens of the rank, padding included).
inline void rank_indices(const Plan& plan, Task task, const ContextShards& shards, std::size_t rank,
                         const IndexOptions& options, RankIndices& out) {
  require(rank < shards.ranks.size(), "rank is ", rank, "; expected a number below ", shards.ranks.size());
  const std::span<const Slice> pack = plan.of(task.pass).packs[task.pack];
  std::vector<Slice> chunks(shards.ranks[rank].begin(), shards.ranks[rank].end());
  for (Slice& chunk : chunks) chunk.sample = pack[chunk.sample].sample;
  token_indices(shards, rank, out.tokens);
  slice_indices(plan, chunks, to_string(task), options, out.chunks);
}

/// The same in arrays of their own.
[[nodiscard]] inline RankIndices rank_indices(const Plan& plan, Task task, const ContextShards& shards,
                                              std::size_t rank, const IndexOptions& options = {}) {
  RankIndices out;
  rank_indices(plan, task, shards, rank, options, out);
  return out;
}

}  // namespace slimpack
