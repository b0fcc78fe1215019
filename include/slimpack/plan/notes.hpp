#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack::detail {

/// States the tile and the mean pack if half a tile is more than 2 % of the mean pack; else nothing.
[[nodiscard]] inline std::string coarseness(const PlanMetrics& metrics, Tokens tile) {
  const Tokens tokens = metrics.tokens / static_cast<Tokens>(std::max<std::size_t>(1, metrics.packs));
  if (tokens / 25 > tile) return "";
  return concat("; boundaries are ", tile, " tokens apart, and packs hold ", tokens, " tokens on average");
}

/// Packs that a pipeline runs in one pass, and the tiles of all slices in them.
struct PackCount {
  std::size_t packs = 0;
  std::size_t tiles = 0;
};

[[nodiscard]] inline std::vector<PackCount> count_packs(const PassPlan& pass, std::size_t pipelines,
                                                        Tokens tile) {
  std::vector<PackCount> counts(pipelines);
  for (std::size_t k = 0; k < pass.packs.size(); ++k) {
    std::size_t tiles = 0;
    for (const Slice& slice : pass.packs[k])
      tiles += static_cast<std::size_t>((slice.end - slice.begin - 1) / tile + 1);
    for (const PipelineId p : pass.pipelines[k]) {
      ++counts[p].packs;
      counts[p].tiles += tiles;
    }
  }
  return counts;
}

/// Notes how many packs pipelines have if some have fewer than `asked` in a pass.
inline void note_fewer_packs(std::size_t asked, Tokens tile, Plan& plan) {
  std::size_t least = asked, most = 0;
  bool too_few_tiles = true;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (const PackCount& count : count_packs(plan.of(pass), plan.pipelines.size(), tile)) {
      least = std::min(least, count.packs);
      most = std::max(most, count.packs);
      if (count.packs < asked) too_few_tiles = too_few_tiles && count.tiles < asked;
    }
  }
  if (least == asked) return;
  plan.notes.push_back(concat(asked, " packs were asked for; pipelines have at least ", least,
                              " and at most ", most, " in a pass: ",
                              too_few_tiles ? concat("samples have too few tiles of ", tile, " tokens")
                                            : "equal packs come out in these numbers"));
}

}  // namespace slimpack::detail
