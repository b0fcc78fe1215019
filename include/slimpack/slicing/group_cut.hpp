#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "slimpack/core/ids.hpp"

namespace slimpack {

/// Where the boundaries of backward packs are. Each way mostly holds less memory than the one before, but its packs are less
/// equal.
enum class BackwardPacks : std::uint8_t {
  own,       ///< their own (asymmetric partition)
  mirrored,  ///< those of the forward packs; a chain of packs that share samples runs backward in reverse
  mirrored_apart,  ///< the same, but samples that are cut share no pack, so that chains are short
  mirrored_rising,  ///< the same with the chains of the longest samples last, so that stages are far ahead only for these
};

/// How a group's samples are cut.
struct GroupCut {
  std::size_t packs = 0;  ///< per member and pass, merged ones included; about, unless `exact`
  Tokens tile = 128;      ///< slice boundaries are multiples of this, except at the end of a sample
  BackwardPacks backward = BackwardPacks::own;
  bool fill = true;    ///< complete short samples fill packs (`MicroPackOptions::fill`)
  bool exact = false;  ///< exactly `packs` in both passes on all members, with empty ones where samples lack
  bool one_member = false;  ///< only the member with most work of its own, standing for all

  friend bool operator==(const GroupCut&, const GroupCut&) = default;
};

/// Number of merged packs of a group, and the cost that all its packs aim at.
struct GroupPackSize {
  std::size_t merged_packs = 0;
  double seconds = 0.0;

  /// Slicing can make merged samples more expensive than they are as a whole; local packs then grow with them.
  void set_merged(double merged_seconds, std::size_t packs) {
    if (packs > 0) seconds = merged_seconds / static_cast<double>(packs);
  }
  /// Packs that share `local` seconds.
  [[nodiscard]] std::size_t packs_of(double local) const {
    return std::max<std::size_t>(1,
                                 seconds > 0.0 ? static_cast<std::size_t>(std::round(local / seconds)) : 1);
  }
};

/// The size of about `how.packs` packs such that merged and local samples both fill whole numbers of them as nearly as can be:
/// the choice with the least ratio of largest pack to mean. @pre how.packs is positive. O(how.packs).
/// @param merged seconds of the merged samples. @param local seconds of a member's own samples, on average.
[[nodiscard]] inline GroupPackSize group_pack_size(const GroupCut& how, double merged, double local) {
  const auto wanted = static_cast<double>(how.packs);
  if (merged == 0.0 || local == 0.0) return {merged == 0.0 ? 0 : how.packs, std::max(merged, local) / wanted};
  const double share = merged / (merged + local) * wanted;
  const double reach = std::max(1.0, share / 8.0);
  GroupPackSize best;
  double least = std::numeric_limits<double>::infinity();
  const double most = std::max(1.0, std::min(share + reach + 1.0, wanted - 1.0));
  const auto first = static_cast<std::size_t>(std::clamp(std::floor(share - reach), 1.0, most));
  for (std::size_t merged_packs = first; merged_packs <= static_cast<std::size_t>(most); ++merged_packs) {
    const auto m = static_cast<double>(merged_packs);
    const double l = std::max(1.0, how.exact ? wanted - m : std::round(local / merged * m));
    const double imbalance = std::max(merged / m, local / l) * (m + l) / (merged + local);
    if (imbalance < least - 1e-3) {
      least = imbalance;
      best = {merged_packs, merged / m};
    }
  }
  return best;
}

}  // namespace slimpack
