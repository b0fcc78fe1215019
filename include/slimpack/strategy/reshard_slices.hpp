#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/strategy/reshard_shards.hpp"

namespace slimpack {

/// Numbers of a unit that the same devices hold before, and the same devices afterwards (Hydraulis, section 5.2). They move
/// as one.
struct MutualSlice {
  std::int64_t begin = 0, end = 0;
  std::vector<DeviceId> from;  ///< that hold it in the layout it comes from, ascending
  std::vector<DeviceId> to;    ///< that hold it in the layout it goes to, ascending

  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// @throws InvalidInput naming the first unit of which the layouts don't have the same numbers: they are of different models.
/// O(units).
inline void require_same_units(const ParameterShards& from, const ParameterShards& to) {
  require(from.units() == to.units(), "parameters would move from a layout of ", from.units(),
          " units to one of ", to.units(), "; expected layouts of one model");
  for (std::size_t u = 0; u < from.units(); ++u) {
    require(from.sizes[u] == to.sizes[u], "unit ", u, " has ", from.sizes[u],
            " numbers in the layout that it would leave and ", to.sizes[u],
            " in the one that it would get; expected layouts of one model");
  }
}

/// The mutual slices of a unit, ascending; together they are all its numbers. The paper cuts every unit into
/// LCM(N, largest tp) equal ones; these are as long as they can be.
/// @pre both layouts are valid and have the same units.
/// Complexity: O(n log n + slices * replicas) in the shards of the unit.
[[nodiscard]] inline std::vector<MutualSlice> mutual_slices(const ParameterShards& from,
                                                            const ParameterShards& to, std::size_t unit) {
  std::vector<std::int64_t> cuts;
  for (const ParameterShards* layout : {&from, &to}) {
    for (const ParameterShard& shard : layout->shards[unit]) {
      cuts.push_back(shard.begin);
      cuts.push_back(shard.end);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<MutualSlice> slices;
  for (std::size_t i = 1; i < cuts.size(); ++i) slices.push_back({cuts[i - 1], cuts[i], {}, {}});
  const auto add = [&](const ParameterShards& layout, std::vector<DeviceId> MutualSlice::*devices) {
    for (const ParameterShard& shard : layout.shards[unit]) {
      auto slice = std::lower_bound(slices.begin(), slices.end(), shard.begin,
                                    [](const MutualSlice& s, std::int64_t begin) { return s.begin < begin; });
      for (; slice != slices.end() && slice->begin < shard.end; ++slice)
        ((*slice).*devices).push_back(shard.device);
    }
    for (MutualSlice& slice : slices) std::sort((slice.*devices).begin(), (slice.*devices).end());
  };
  add(from, &MutualSlice::from);
  add(to, &MutualSlice::to);
  return slices;
}

}  // namespace slimpack
