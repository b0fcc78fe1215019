#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "slimpack/core/hash.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/partition/groups.hpp"
#include "slimpack/slicing/group_cutter.hpp"

namespace slimpack {

/// Remembers how groups of pipelines were cut, and how long each cut takes at least, so that none is tried again in vain. Groups
/// with the same samples are one group, whichever pipelines they are. Keeps 64-bit hashes only: if two cuts ever had the
/// same one, a candidate would be missed.
class TriedCuts {
 public:
  /// Chooses the group that later calls are about. O(samples of the group).
  void load(const SampleGroup& group) {
    group_ = {};
    group_.add_all(std::span(group.merged));
    group_.add_all(std::span(group.local), [&](const auto& own) { group_.add_all(std::span(own)); });
  }

  /// Seconds that a cut of the loaded group takes at least, as far as is known: 0 if it was not tried. O(1).
  [[nodiscard]] double& least_seconds(const GroupCut& cut) {
    WordHash key = group_;
    key.add(cut.packs);
    key.add(cut.tile);
    key.add(static_cast<std::uint8_t>(cut.backward));
    for (const bool flag : {cut.fill, cut.exact, cut.one_member}) key.add(flag);
    return least_[key.value()];
  }

 private:
  WordHash group_;
  std::unordered_map<std::uint64_t, double> least_;
};

}  // namespace slimpack
