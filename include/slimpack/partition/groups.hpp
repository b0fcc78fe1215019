#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/ids.hpp"

namespace slimpack {

/// Which numbers of pipelines may share merged samples.
enum class GroupSizes : std::uint8_t {
  any,            ///< 1, 2, 3, …
  powers_of_two,  ///< for frameworks that can't have others
};

/// Whether so many pipelines may share merged samples. @pre size > 0.
[[nodiscard]] constexpr bool contains(GroupSizes sizes, std::size_t size) {
  return sizes == GroupSizes::any || std::has_single_bit(size);
}

/// Samples of one or more pipelines that have merged samples in common; a pipeline alone is a group of one.
struct SampleGroup {
  PipelineId first = 0;          ///< the members are pipelines first, first + 1, …
  std::vector<SampleId> merged;  ///< longest first; run by all members together, in lockstep (DP-Merge)
  std::vector<std::vector<SampleId>> local;  ///< [member] longest first; samples that one member runs alone

  [[nodiscard]] std::size_t size() const { return local.size(); }
  friend bool operator==(const SampleGroup&, const SampleGroup&) = default;
};

/// Most tokens of one sample that a member of a group holds. @param lengths of all samples. O(samples of the group).
[[nodiscard]] inline double most_held_tokens(const SampleGroup& group, std::span<const Tokens> lengths) {
  Tokens merged = 0, local = 0;
  for (const SampleId id : group.merged) merged = std::max(merged, lengths[id]);
  for (const std::vector<SampleId>& own : group.local) {
    for (const SampleId id : own) local = std::max(local, lengths[id]);
  }
  return std::max(static_cast<double>(merged) / static_cast<double>(group.size()),
                  static_cast<double>(local));
}

}  // namespace slimpack
