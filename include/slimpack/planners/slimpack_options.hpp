#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/partition/groups.hpp"

namespace slimpack {

/// What the search of SlimPack tries.
struct SlimPackSearch {
  /// Distributions and numbers of packs are decided with this tile, whatever the plan's own tile, so that a finer tile never
  /// makes a plan longer. They are also decided for samples that stay whole, and with every second tile between the two.
  Tokens deciding_tile = 128;
  /// `deciding_tile` is halved until a pipeline has at least this many tiles for each of its stages.
  Tokens tiles_per_stage = 64;
  /// The longest sample is spread further until this many distributions, one after another, are no shorter than the best.
  int looks_in_vain = 4;
  /// The most distributions of a decision that are turned into plans, because the best of them can change with the tile.
  std::size_t alternatives = 2;
  /// Of these, all but the first may take at most this many times as long as the first.
  double close = 1.03;
  /// The most rounds in which the simulated overhead of pipelines is fed back to Phase 1.
  int rebalance_rounds = 3;
  /// There is another round only if the slowest group takes longer than this many times the mean.
  double unbalanced = 1.01;
  /// A distribution is given up if one of its groups takes this many times as long as the best distribution. So are equal
  /// numbers of packs.
  double hopeless = 1.15;
  /// If no schedule of a group fits into memory, samples are distributed again. A pipeline then holds at most this share of
  /// the tokens of one sample that a member of the group held.
  double less_memory = 0.9;
  /// Candidates are compared without packs that recompute different numbers of layers. They are compared again with such packs
  /// if memory makes the decided step this many times as long.
  double limited = 1.01;
  /// A decided step that takes more than this many times the mean work is starved: equal numbers of packs are tried, and each
  /// of the plan's tiles that is coarser than `deciding_tile` decides. With `merge = false`, a step is starved only if
  /// nothing fits.
  double starved = 1.5;
  /// If a pack has fewer tiles than this, or no sample is cut, fewer packs are tried, and one pack for each tile.
  double tiles_per_pack = 4.0;
  /// Groups are also cut into this many times as many packs as were decided, unless memory limited the decision. If samples
  /// stay whole, they always are, and also into the square of this times as many.
  double denser = 1.41;
  /// Samples are priced in slices as if there were this many times as many packs as are expected: the search goes for more packs
  /// rather than for fewer.
  double slices_per_pack = 1.5;
  /// Capacities of merged groups are tried this factor apart up to 1.5 times the mean work …
  double fine_step = 1.02;
  /// … and this one above.
  double coarse_step = 1.1;
  /// All members of a group are tried if one of them alone takes no more than this many times as long as the best.
  double leeway = 1.05;
  /// Groups whose seconds differ by at most this factor are alike: one stands for the others, and they are cut alike.
  double similar = 1.01;
  /// A candidate counts only if one of its passes has at least this share of the packs that were asked for.
  double enough_packs = 0.6;
  /// Where memory limits a group, its promising number of packs is halved, and doubled, at most this many times.
  int most_doublings = 6;
  /// If nothing that was decided fits, groups are cut into this many times as many packs, again and again.
  std::size_t more_packs = 4;
  /// The most rounds of that.
  int more_rounds = 3;
  /// Equal numbers of packs are tried up to this many for each stage, or up to twice the promising number if that is more.
  std::size_t most_equal_packs = 32;
  /// Also tries best-fit packs of whole samples, as `plan_megatron` makes them.
  bool whole_samples = true;
  /// Also tries whole samples that run on groups of pipelines of their own size: in rows, as `plan_dynamic_cp` makes them, and on
  /// groups that lie in each other (`nested_rank_groups`).
  bool rank_rows = true;
  /// The first of these only for at most this many samples: with more, they gain some tenths of a percent, and take long to make.
  std::size_t most_row_samples = 1024;
  /// False plans in a small part of the time, with one decision, the plan's own tile, and packs of whole samples. Rows, coarser
  /// tiles and plans without merging are tried only if nothing else fits. The plan is no longer than `plan_megatron`'s, and no
  /// shorter than otherwise.
  bool thorough = true;
};

/// @throws InvalidInput naming the first number with which the search could not work.
inline void validate(const SlimPackSearch& search) {
  const auto at_least = [](const char* name, auto value, auto least) {
    require(value >= least, name, " is ", value, "; expected at least ", least);
  };
  at_least("deciding_tile", search.deciding_tile, 1);
  at_least("tiles_per_stage", search.tiles_per_stage, 0);
  at_least("looks_in_vain", search.looks_in_vain, 1);
  at_least("alternatives", search.alternatives, std::size_t{1});
  at_least("close", search.close, 1.0);
  at_least("rebalance_rounds", search.rebalance_rounds, 0);
  at_least("unbalanced", search.unbalanced, 1.0);
  at_least("hopeless", search.hopeless, 1.0);
  require(search.less_memory > 0.0 && search.less_memory < 1.0, "less_memory is ", search.less_memory,
          "; expected more than 0 and less than 1");
  at_least("limited", search.limited, 1.0);
  at_least("starved", search.starved, 0.0);
  at_least("tiles_per_pack", search.tiles_per_pack, 0.0);
  at_least("denser", search.denser, 1.0);
  require(search.slices_per_pack > 0.0, "slices_per_pack is ", search.slices_per_pack,
          "; expected a positive number");
  for (const auto& [name, step] :
       {std::pair{"fine_step", search.fine_step}, std::pair{"coarse_step", search.coarse_step}})
    require(step > 1.0, name, " is ", step, "; expected more than 1");
  at_least("leeway", search.leeway, 1.0);
  at_least("similar", search.similar, 1.0);
  require(search.enough_packs >= 0.0 && search.enough_packs <= 1.0, "enough_packs is ", search.enough_packs,
          "; expected a share in [0, 1]");
  at_least("most_doublings", search.most_doublings, 0);
  at_least("more_packs", search.more_packs, std::size_t{2});
  at_least("more_rounds", search.more_rounds, 0);
  at_least("most_equal_packs", search.most_equal_packs, std::size_t{1});
}

struct SlimPackOptions {
  /// Slice boundaries are multiples of this, except at the end of a sample.
  Tokens tile = 128;
  /// The backward pass has boundaries of its own where they help. False for comparison only.
  bool asymmetric = true;
  /// Complete short samples fill what aligned boundaries leave open in packs.
  bool fill = true;
  /// PackFlow injects forward packs where the next backward pack is not ready. Otherwise forward and backward packs alternate
  /// after a longer warm-up, and layers are recomputed if memory is short.
  bool inject = true;
  bool recompute_each_pack = true;  ///< packs may recompute different numbers of layers
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

/// @throws InvalidInput naming the first option with which the search could not work.
inline void validate(const SlimPackOptions& options) {
  require(options.tile > 0, "tile is ", options.tile, "; expected at least 1 token");
  validate(options.search);
}

}  // namespace slimpack
