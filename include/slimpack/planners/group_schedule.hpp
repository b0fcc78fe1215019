#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/core/packs.hpp"
#include "slimpack/schedule/makespan.hpp"
#include "slimpack/schedule/packflow.hpp"

namespace slimpack {

/// Samples of one or more pipelines that have merged samples in common; a pipeline alone is a group of one.
struct SampleGroup {
  PipelineId first = 0;                      ///< the members are pipelines first, first + 1, …
  std::vector<SampleId> merged;              ///< run by all members, context-parallel, in lockstep (DP-Merge)
  std::vector<std::vector<SampleId>> local;  ///< [member] samples that one member runs alone

  [[nodiscard]] std::size_t size() const { return local.size(); }
};

/// Most tokens of one sample that one of the group's first `members` members holds.
[[nodiscard]] inline double longest_part(const SampleGroup& group, std::span<const Tokens> lengths,
                                         std::size_t members = std::numeric_limits<std::size_t>::max()) {
  Tokens merged = 0, local = 0;
  for (const SampleId id : group.merged) merged = std::max(merged, lengths[id]);
  for (std::size_t i = 0; i < std::min(members, group.size()); ++i) {
    for (const SampleId id : group.local[i]) local = std::max(local, lengths[id]);
  }
  return std::max(static_cast<double>(local),
                  static_cast<double>(merged) / static_cast<double>(group.size()));
}

/// What slicing adds to the cost of merged samples, for each pack, as a share of it.
struct SlicingWaste {
  double forward = 0.0, backward = 0.0;
};

/// Packs, durations and order of a group. In both passes the merged packs come first on all members.
struct GroupSchedule {
  double seconds = std::numeric_limits<double>::infinity();
  bool memory_bound = false;            ///< memory forced recomputation or a shorter lead
  std::vector<std::int32_t> recompute;  ///< [stage] layers computed again in the backward pass
  Packs merged_forward, merged_backward;
  std::vector<Packs> forward, backward;  ///< [member] local packs
  GroupTimes times;
  std::vector<TokenFlow> flow;                            ///< [member] merged packs, then local ones
  std::vector<double> largest_forward, largest_backward;  ///< [member] most tokens in a pack, on one member
  SlicingWaste waste;
  bool cut_once = false;  ///< merged samples, as of MicroPackOptions::once
};

}  // namespace slimpack
