#pragma once

#include <algorithm>
#include <cstdint>

namespace slimpack {

/// Layers of a stage from `first` up to, not including, `end`.
struct LayerRange {
  std::int32_t first = 0, end = 0;

  [[nodiscard]] constexpr bool contains(std::int32_t layer) const { return first <= layer && layer < end; }
  [[nodiscard]] constexpr std::int32_t size() const { return end - first; }
};

/// Which of a stage's layers wait in the host's memory: those after the recomputed ones, which stand first. Backward
/// needs the first layers last, so that there is most time to fetch them. Where fewer than `offload` layers are not
/// recomputed, the last recomputed ones wait there as well. Of a recomputed layer that is its input, of others all that backward
/// reads, but for keys and values: later slices read these, so they stay on the device.
/// @param layers of the stage. @param recompute, offload of these, each 0 to all.
[[nodiscard]] constexpr LayerRange offloaded_layers(std::int32_t layers, std::int32_t recompute,
                                                    std::int32_t offload) {
  const std::int32_t first = std::min(recompute, layers - offload);
  return {first, first + offload};
}

}  // namespace slimpack
