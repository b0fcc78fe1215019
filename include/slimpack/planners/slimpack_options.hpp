#pragma once

#include <cstddef>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/partition/groups.hpp"

namespace slimpack {

/// What the search of SlimPack tries.
struct SlimPackSearch {
  /// Distributions and numbers of packs are chosen with this tile whatever the plan's own tile, so that a finer tile
  /// never makes a plan longer. They are also chosen for samples that stay whole, and with every second tile between. It
  /// is halved until a pipeline has at least `tiles_per_stage` tiles for each of its stages.
  Tokens deciding_tile = 128;
  Tokens tiles_per_stage = 64;
  /// Distributions that spread the longest sample further and further are looked at until so many, one after another,
  /// are no shorter than the best.
  int looks_in_vain = 4;
  /// Of each decision, so many distributions are turned into plans, of those that take no more than `close` times as long as
  /// the best: a tile that is coarser than the one of the decision can change which is best.
  std::size_t alternatives = 2;
  double close = 1.03;
  /// Rounds in which the simulated overhead of pipelines is fed back to Phase 1 …
  int rebalance_rounds = 3;
  /// … while the slowest group takes longer than this many times the mean.
  double unbalanced = 1.01;
  /// A distribution is given up if one of its groups takes this many times as long as the best distribution, and so are
  /// equal numbers of packs.
  double hopeless = 1.15;
  /// If no schedule of a group fits into memory, samples are distributed again; a pipeline then holds at most this share of
  /// the most tokens of one sample that a member of the group held.
  double less_memory = 0.9;
  /// Candidates are compared without packs that recompute unlike numbers of layers. If memory makes what was decided
  /// take more than this many times as long as with enough of it, they are compared again, with such packs.
  double limited = 1.01;
  /// If what was decided takes more than this many times the mean work, equal numbers of packs are tried as well, and
  /// decisions are made with each of the plan's tiles that is coarser than `deciding_tile`. With `merge = false`, only
  /// if nothing that was decided fits.
  double starved = 1.5;
  /// Where a pack would have fewer tiles than this, or no sample is cut, fewer packs are tried as well, and a pack for each tile.
  double tiles_per_pack = 4.0;
  /// Groups are also cut into this many times as many packs as were decided, unless memory limited the decision. Groups
  /// whose samples stay whole are in any case, and also into the square of this times as many.
  double denser = 1.41;
  /// Groups are alike if their seconds differ by no more than this factor: one stands for others, and they are cut alike.
  double similar = 1.01;
  /// A candidate counts only if one of its passes has at least this share of the packs that were asked for.
  double enough_packs = 0.6;
  /// Where memory limits a group, its promising number of packs is halved, and doubled, at most this many times.
  int most_doublings = 6;
  /// If nothing that was decided fits, groups are cut into `more_packs` times as many packs, in up to `more_rounds` rounds.
  std::size_t more_packs = 4;
  int more_rounds = 3;
  /// Equal numbers of packs are tried up to this many for each stage, or up to twice the promising number if that is more.
  std::size_t most_equal_packs = 32;
  bool whole_samples = true;  ///< also tries best-fit packs of whole samples, as `plan_megatron` makes them
  bool nested_groups =
      true;  ///< also tries whole samples on groups of pipelines that lie in each other (`nested_rank_groups`)
};

struct SlimPackOptions {
  Tokens tile = 128;  ///< slice boundaries are multiples of this, except at the end of a sample
  bool asymmetric =
      true;          ///< own boundaries for the backward pass where they help; false for comparison only
  bool fill = true;  ///< complete short samples fill what aligned boundaries leave open in packs
  /// PackFlow injects forward packs where the next backward pack is not ready. Otherwise forward and backward packs alternate
  /// after a longer warm-up, and what memory lacks is recomputed.
  bool inject = true;
  bool recompute_each_pack = true;  ///< packs may recompute unlike numbers of layers
  /// Layers may wait in the host's memory in place of being recomputed, if that is faster.
  bool offload = false;
  bool merge = true;  ///< DP-Merge to save time; without it, only for samples that exceed a pipeline's memory
  GroupSizes group_sizes = GroupSizes::any;
  bool equal_packs = false;  ///< the same number of packs on every pipeline, with empty ones where needed
  std::size_t packs = 0;     ///< packs per pipeline and pass, as closely as possible; 0 = search
  /// Tokens that a pack of whole samples may hold at most; 0: as many as the longest sample. Without restrictions above or in
  /// `search`, no plan is longer than `plan_megatron`'s with this context.
  Tokens context = 0;
  SlimPackSearch search = {};
};

}  // namespace slimpack
